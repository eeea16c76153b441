package main

import (
	"bytes"
	"errors"
	"io"
	"path/filepath"
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
	if err := r.check(); err != nil {
		return err
	}
	if r.Cwd != "" {
		cwd, err := run.directory(r.Cwd)
		if err != nil {
			return err
		}
		r.Cwd = cwd
	}
	if r.StdinPath != "" && !filepath.IsAbs(r.StdinPath) {
		r.StdinPath = filepath.Join(run.cfg.Workdir, r.StdinPath)
	}
	name, err := run.shellOf(r.Shell, r.User)
	if err != nil {
		return err
	}
	r.Shell = name
	q.exec = run.newExecution(r, q.streams)
	return nil
}

// warmShell starts the default shell before anybody asks for it, so that the first
// command does not wait for bash to read its profile. It has the first turn; a shell
// that does not start says why to the command that needs it.
func (run *runner) warmShell() {
	turn := run.shells.lines.join(defaultShell)
	go func() {
		defer turn.leave()
		turn.wait()
		run.openShell(&shellSpec{Name: defaultShell})
	}()
}

// An execWatcher is told how far a command has come.
type execWatcher interface {
	waits()        // another command has the shell; called at most once
	begins(*shell) // it is about to start
	isEnded()      // it is about to be interrupted
}

// execute runs a command whose turn was taken by joinShell.
func (run *runner) execute(e *execution, into *capture, watcher execWatcher) (*execResult, error) {
	defer run.finish(e)
	if !e.turn.hasCome() {
		watcher.waits()
		select {
		case <-e.turn.come:
		case <-e.stopped:
			return run.neverBegan(e), nil
		}
	}
	for {
		sh, isNew, err := run.openShell(&shellSpec{Name: e.Shell, User: e.User})
		if err != nil {
			return nil, err
		}
		if e.User != "" && sh.user != e.User {
			return nil, invalid("shell %s belongs to %s", sh.name, sh.user)
		}
		result, err := sh.run(e, into, watcher)
		var gone *notBegun
		switch {
		case errors.Is(err, errStopped):
			return run.neverBegan(e), nil
		case errors.As(err, &gone) && !isNew:
			<-sh.ended // it died idle: the command gets a fresh one
		default:
			return result, err
		}
	}
}

// neverBegan is the result of a command that was stopped while it waited for its shell.
func (run *runner) neverBegan(e *execution) *execResult {
	result := &execResult{exitCode: interruptedCode, cwd: run.cfg.Workdir, neverBegan: true}
	if sh := run.findShell(e.Shell); sh != nil {
		result.cwd = sh.directory()
	}
	if e.why == timeIsUp {
		result.exitCode, result.timedOut = timeoutCode, true
	}
	return result
}

// An unwatched command is one whose client waits for the reply.
type unwatched struct{}

func (unwatched) waits()        {}
func (unwatched) begins(*shell) {}
func (unwatched) isEnded()      {}

func answerExec(run *runner, q *request) (fields, []byte, error) {
	size := defaultOutputBytes
	if q.exec.MaxOutputBytes != nil {
		size = *q.exec.MaxOutputBytes
	}
	kept := newCapture(size)
	result, err := run.execute(q.exec, kept, unwatched{})
	if err != nil {
		return nil, nil, err
	}
	body, truncated := kept.bytes()
	if body == nil {
		body = []byte{}
	}
	for i := 0; i < result.blankLines; i++ {
		body = bytes.TrimSuffix(body, []byte(lineEnd))
	}
	reply := result.fields()
	reply["shell"], reply["truncated"] = q.exec.Shell, truncated
	return reply, body, nil
}

// cancelExec ends a command, or withdraws it while it waits. It answers at once: the command's own reply tells when it is over.
func cancelExec(run *runner, q *request) (fields, []byte, error) {
	var r struct {
		Key string `json:"key"`
	}
	if err := q.decode(&r); err != nil {
		return nil, nil, err
	}
	if e := run.executions.find(r.Key); e != nil {
		e.stop(interrupted)
	}
	return fields{"ok": true}, nil, nil
}

// streamExec sends output as it comes. The output is read from the shell's
// screen, which waits for this reader while it is attached. The reply comes before
// the command begins: from then on it can be cancelled.
func streamExec(run *runner, s *stream, q *request) error {
	s.reply(fields{"shell": q.exec.Shell}) // a client that has gone is noticed with the first output
	follow := &execFollower{s: s}
	result, err := run.execute(q.exec, nil, follow)
	if err != nil {
		return err
	}
	if err := follow.finish(result.blankLines); err != nil {
		return err
	}
	reply := result.fields()
	reply["shell"], reply["truncated"] = q.exec.Shell, false
	return s.send("exec_done", reply, nil)
}

// An execFollower passes the part of a screen that one command prints to a client.
type execFollower struct {
	s             *stream
	hasToldOfWait bool
	screen        *output
	done          chan struct{} // nil until the command begins
	err           error
	until         func(end int64) (limit int64, isEnd bool) // guarded by screen.mu
}

func (f *execFollower) waits() {
	f.hasToldOfWait = true
	f.s.send("exec_waiting", nil, nil)
}

func (f *execFollower) begins(sh *shell) {
	if f.hasToldOfWait {
		f.s.send("exec_started", nil, nil)
	}
	f.screen, f.done, f.until = sh.screen, make(chan struct{}), noLimit
	reader := f.screen.attach(f.screen.position())
	reader.onCut = f.s.closeSoon
	go func() {
		defer close(f.done)
		defer reader.detach()
		buf := make([]byte, 32<<10)
		for {
			_, n, err := reader.next(buf, func(end int64) (int64, bool) { return f.until(end) })
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

// isEnded holds back what may turn out to be empty lines of the shell's own.
func (f *execFollower) isEnded() {
	f.limit(func(end int64) (int64, bool) { return end - maxBlankLines*int64(len(lineEnd)), false })
}

// finish waits until everything that was printed so far has been sent, but for so many empty lines of the shell's own at the end.
func (f *execFollower) finish(blankLines int) error {
	if f.done == nil {
		return nil // it never began
	}
	last := f.screen.endWithout(lineEnd, blankLines)
	f.limit(func(int64) (int64, bool) { return last, true })
	<-f.done
	return f.err
}

func (f *execFollower) limit(until func(end int64) (int64, bool)) {
	f.screen.mu.Lock()
	f.until = until
	f.screen.mu.Unlock()
	f.screen.wake()
}
