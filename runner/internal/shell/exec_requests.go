package shell

import (
	"bytes"
	"errors"
	"io"
	"path/filepath"

	"sandglass/runner/internal/spawn"
	"sandglass/runner/internal/stdio"
	"sandglass/runner/internal/wire"
)

// AdmitExec puts an exec into its shell's queue before the next request is read, so
// that commands run in the order they arrived.
func (ss *Shells) AdmitExec(q *wire.Request) error {
	var r execRequest
	if err := q.Decode(&r); err != nil {
		return err
	}
	if r.Shell == "" {
		r.Shell = defaultShell
	}
	if err := r.check(); err != nil {
		return err
	}
	if r.Cwd != "" {
		cwd, err := ss.spawner.Directory(r.Cwd)
		if err != nil {
			return err
		}
		r.Cwd = cwd
	}
	if r.StdinPath != "" && !filepath.IsAbs(r.StdinPath) {
		r.StdinPath = filepath.Join(ss.cfg.Workdir, r.StdinPath)
	}
	name, err := ss.nameFor(r.Shell, r.User)
	if err != nil {
		return err
	}
	r.Shell = name
	q.Admitted = ss.newExecution(r, q.IsStream)
	return nil
}

// StartMain starts the default shell before anybody asks for it, so that the first
// command does not wait for bash to read its profile. It has the first turn; a shell
// that does not start says why to the command that needs it.
func (ss *Shells) StartMain() {
	turn := ss.locks.queue(defaultShell)
	go func() {
		defer turn.release()
		turn.wait()
		ss.open(&spec{Name: defaultShell})
	}()
}

// An watcher is told how far a command has come.
type watcher interface {
	onWait()        // another command has the shell; called at most once
	onStart(*Shell) // it is about to start
	onStop()        // it is about to be interrupted
}

// execute runs a command whose turn was taken by admitExec.
func (ss *Shells) execute(e *execution, into *stdio.Capture, watcher watcher) (*execResult, error) {
	defer ss.finish(e)
	if !e.lock.isHeld() {
		watcher.onWait()
		select {
		case <-e.lock.held:
		case <-e.stopped:
			return ss.neverStarted(e), nil
		}
	}
	for {
		sh, isNew, err := ss.open(&spec{Name: e.Shell, User: e.User})
		if err != nil {
			return nil, err
		}
		if e.User != "" && sh.user != e.User {
			return nil, wire.Invalid("shell %s belongs to %s", sh.name, sh.user)
		}
		result, err := sh.run(e, into, watcher)
		var gone *notStarted
		switch {
		case errors.Is(err, errStoppedEarly):
			return ss.neverStarted(e), nil
		case errors.As(err, &gone) && !isNew:
			<-sh.ended // it died idle: the command gets a fresh one
		default:
			return result, err
		}
	}
}

// neverStarted is the result of a command that was stopped while it waited for its shell.
func (ss *Shells) neverStarted(e *execution) *execResult {
	result := &execResult{exitCode: interruptedCode, cwd: ss.cfg.Workdir, neverStarted: true}
	if sh := ss.find(e.Shell); sh != nil {
		result.cwd = sh.directory()
	}
	if e.reason == timedOut {
		result.exitCode, result.timedOut = spawn.TimeoutStatus, true
	}
	return result
}

// An unwatched command is one whose client waits for the reply.
type unwatched struct{}

func (unwatched) onWait() {}

func (unwatched) onStart(*Shell) {}

func (unwatched) onStop() {}

func (ss *Shells) answerExec(q *wire.Request) (wire.Fields, []byte, error) {
	e := q.Admitted.(*execution)
	size := defaultOutputBytes
	if e.MaxOutputBytes != nil {
		size = *e.MaxOutputBytes
	}
	kept := stdio.NewCapture(size)
	result, err := ss.execute(e, kept, unwatched{})
	if err != nil {
		return nil, nil, err
	}
	body, truncated := kept.Bytes()
	if body == nil {
		body = []byte{}
	}
	for i := 0; i < result.blankLines; i++ {
		body = bytes.TrimSuffix(body, []byte(lineEnd))
	}
	reply := result.fields()
	reply["shell"], reply["truncated"] = e.Shell, truncated
	return reply, body, nil
}

// answerCancel ends a command, or withdraws it while it waits. It answers at once: the command's own reply tells when it is over.
func (ss *Shells) answerCancel(q *wire.Request) (wire.Fields, []byte, error) {
	var r struct {
		Key string `json:"key"`
	}
	if err := q.Decode(&r); err != nil {
		return nil, nil, err
	}
	if e := ss.executions.find(r.Key); e != nil {
		e.stop(interrupted)
	}
	return wire.Fields{"ok": true}, nil, nil
}

// streamExec sends output as it comes. The output is read from the shell's
// screen, which waits for this reader while it is attached. The reply comes before
// the command begins: from then on it can be cancelled.
func (ss *Shells) streamExec(s *wire.Stream, q *wire.Request) error {
	e := q.Admitted.(*execution)
	s.Reply(wire.Fields{"shell": e.Shell}) // a client that has gone is noticed with the first output
	follow := &execFollower{s: s}
	result, err := ss.execute(e, nil, follow)
	if err != nil {
		return err
	}
	if err := follow.finish(result.blankLines); err != nil {
		return err
	}
	reply := result.fields()
	reply["shell"], reply["truncated"] = e.Shell, false
	return s.Send("exec_done", reply, nil)
}

// An execFollower passes the part of a screen that one command prints to a client.
type execFollower struct {
	s             *wire.Stream
	hasToldOfWait bool
	screen        *stdio.Output
	done          chan struct{} // nil until the command begins
	err           error
	until         func(end int64) (limit int64, isEnd bool) // guarded by screen.mu
}

func (f *execFollower) onWait() {
	f.hasToldOfWait = true
	f.s.Send("exec_waiting", nil, nil)
}

func (f *execFollower) onStart(sh *Shell) {
	if f.hasToldOfWait {
		f.s.Send("exec_started", nil, nil)
	}
	f.screen, f.done, f.until = sh.screen, make(chan struct{}), stdio.NoLimit
	reader := stdio.Attach(f.s, f.screen, f.screen.Position())
	go func() {
		defer close(f.done)
		defer reader.Detach()
		buf := make([]byte, 32<<10)
		for {
			_, n, err := reader.Next(buf, func(end int64) (int64, bool) { return f.until(end) })
			if errors.Is(err, stdio.ErrSlowReader) {
				f.err = io.EOF // told here: the command may run for long
				f.s.Out.Fail("", err)
				return
			}
			if err != nil {
				return // everything was sent
			}
			if f.err = f.s.Send("exec_chunk", nil, buf[:n]); f.err != nil {
				return // the client is gone: the command runs on and its output is dropped
			}
		}
	}()
}

// onStop holds back what may turn out to be empty lines of the shell's own.
func (f *execFollower) onStop() {
	f.limit(func(end int64) (int64, bool) { return end - maxBlankLines*int64(len(lineEnd)), false })
}

// finish waits until everything that was printed so far has been sent, but for so many empty lines of the shell's own at the end.
func (f *execFollower) finish(blankLines int) error {
	if f.done == nil {
		return nil // it never began
	}
	last := f.screen.EndWithout(lineEnd, blankLines)
	f.limit(func(int64) (int64, bool) { return last, true })
	<-f.done
	return f.err
}

func (f *execFollower) limit(until func(end int64) (int64, bool)) {
	f.screen.Update(func() { f.until = until })
}
