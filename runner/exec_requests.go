package main

import (
	"errors"
	"io"
	"strings"
	"time"
)

// joinShell gives an exec its place in line before the next request is read, so
// that commands run in the order they arrived.
func joinShell(run *runner, q *request) error {
	var r execRequest
	if err := q.decode(&r); err != nil {
		return err
	}
	if r.Shell == "" {
		r.Shell = defaultShell
	}
	switch {
	case r.Cmd == "":
		return invalid("cmd must not be empty")
	case len(r.Cmd) > maxCommandBytes:
		return invalid("cmd must be at most %d bytes", maxCommandBytes)
	case strings.ContainsRune(r.Cmd, 0):
		return invalid("cmd must not contain NUL")
	case r.TimeoutMS < 0:
		return invalid("timeout_ms must not be negative")
	case r.MaxOutputBytes != nil && (*r.MaxOutputBytes < 0 || *r.MaxOutputBytes > maxBodyBytes):
		return invalid("max_output_bytes must be 0 to %d", maxBodyBytes)
	case !isShellName(r.Shell):
		return invalid("shell name must be 1 to 32 of a-z, 0-9, _ and -")
	}
	q.exec, q.turn = &r, run.shells.lines.join(r.Shell)
	return nil
}

// warmShell starts the default shell before anybody asks for it, so that the first
// command does not wait for bash to read its profile. It has the first turn; a shell
// that does not start says why to the command that needs it.
func (run *runner) warmShell() {
	turn := run.shells.lines.join(defaultShell)
	go func() {
		defer turn.end()
		turn.wait()
		run.openShell(&shellSpec{Name: defaultShell})
	}()
}

// execute runs a command whose turn was taken by joinShell.
func (run *runner) execute(q *request, into *capture, begin func(*shell)) (*execResult, error) {
	defer q.turn.end()
	q.turn.wait()
	timeout := defaultTimeout
	if q.exec.TimeoutMS > 0 {
		timeout = time.Duration(q.exec.TimeoutMS) * time.Millisecond
	}
	for {
		sh, isNew, err := run.openShell(&shellSpec{Name: q.exec.Shell})
		if err != nil {
			return nil, err
		}
		result, err := sh.run(q.exec.Cmd, timeout, into, func() { begin(sh) })
		var gone *notBegun
		if errors.As(err, &gone) && !isNew {
			<-sh.ended // it died idle: the command gets a fresh one
			continue
		}
		return result, err
	}
}

func answerExec(run *runner, q *request) (fields, []byte, error) {
	size := defaultOutputBytes
	if q.exec.MaxOutputBytes != nil {
		size = *q.exec.MaxOutputBytes
	}
	kept := newCapture(size)
	result, err := run.execute(q, kept, func(*shell) {})
	if err != nil {
		return nil, nil, err
	}
	body, truncated := kept.bytes()
	if body == nil {
		body = []byte{}
	}
	reply := result.fields()
	reply["truncated"] = truncated
	return reply, body, nil
}

// streamExec sends output as it comes. The output is read from the shell's
// screen, which waits for this reader while it is attached.
func streamExec(run *runner, s *stream, q *request) error {
	follow := &execFollower{s: s, done: make(chan struct{})}
	result, err := run.execute(q, nil, follow.begin)
	if err != nil {
		return err
	}
	if err := follow.finish(); err != nil {
		return err
	}
	reply := result.fields()
	reply["truncated"] = false
	return s.send("exec_done", reply, nil)
}

// An execFollower passes the part of a screen that one command prints to a client.
type execFollower struct {
	s      *stream
	screen *output
	done   chan struct{}
	err    error
	stop   int64 // -1 while the command runs; guarded by screen.mu
}

func (f *execFollower) begin(sh *shell) {
	f.screen, f.stop = sh.screen, -1
	reader := f.screen.attach(f.screen.position())
	reader.onCut = f.s.closeSoon
	f.s.replied = true
	go func() {
		defer close(f.done)
		defer reader.detach()
		buf := make([]byte, 32<<10)
		for {
			_, n, err := reader.next(buf, func() int64 { return f.stop })
			if errors.Is(err, errSlowReader) {
				f.err = io.EOF // told here: the command may run for long
				f.s.out.fail("", err)
				return
			}
			if err != nil {
				return // everything was sent
			}
			if f.err = f.s.send("exec_chunk", nil, buf[:n]); f.err != nil {
				return // the client is gone: the command runs on and its output is dropped
			}
		}
	}()
}

// finish waits until everything that was printed so far has been sent.
func (f *execFollower) finish() error {
	f.screen.mu.Lock()
	f.stop = f.screen.end
	f.screen.mu.Unlock()
	f.screen.wake()
	<-f.done
	return f.err
}
