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

// AdmitExec queues an exec for its shell before the next request is read, so that commands run in the order they
// arrived.
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

// StartMain starts the shell main, so that the first command does not wait for bash to read its profile. If the shell
// does not start, the command that needs it reports the error.
func (ss *Shells) StartMain() {
	lock := ss.locks.queue(defaultShell)
	go func() {
		defer lock.release()
		lock.wait()
		ss.open(&spec{Name: defaultShell})
	}()
}

// A watcher follows the progress of a command.
type watcher interface {
	onWait()        // another command uses the shell; called at most once
	onStart(*Shell) // the command is about to start
	onStop()        // the command is about to be interrupted
}

// execute runs a command that AdmitExec has queued.
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
			<-sh.ended // it ended while idle: the command gets a new one
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

// unwatched is the watcher of a command whose client waits for the reply.
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

// answerCancel ends a command, or cancels it while it waits. It answers at once; the reply of the command tells when
// the command is over.
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

// streamExec sends the output as it is printed. It reads the output of the shell's terminal, which waits for this
// reader. The reply is sent before the command starts, because the client can cancel the command from then on.
func (ss *Shells) streamExec(s *wire.Stream, q *wire.Request) error {
	e := q.Admitted.(*execution)
	s.Reply(wire.Fields{"shell": e.Shell}) // a closed client is detected at the first output
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

// An execFollower sends the part of a terminal's output that one command prints to a client.
type execFollower struct {
	s              *wire.Stream
	hasSentWaiting bool
	screen         *stdio.Output
	done           chan struct{} // nil until the command starts
	err            error
	until          func(end int64) (limit int64, isEnd bool) // changed by Output.Update only
}

func (f *execFollower) onWait() {
	f.hasSentWaiting = true
	f.s.Send("exec_waiting", nil, nil)
}

func (f *execFollower) onStart(sh *Shell) {
	if f.hasSentWaiting {
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
				f.err = io.EOF // sent here, because the command may run for long
				f.s.Out.Fail("", err)
				return
			}
			if err != nil {
				return // everything was sent
			}
			if f.err = f.s.Send("exec_chunk", nil, buf[:n]); f.err != nil {
				return // the client has closed: the command runs on and its output is dropped
			}
		}
	}()
}

// onStop holds back output that may turn out to be empty lines printed by the shell.
func (f *execFollower) onStop() {
	f.limit(func(end int64) (int64, bool) { return end - maxBlankLines*int64(len(lineEnd)), false })
}

// finish waits until all output so far has been sent, except the given number of empty lines at the end.
func (f *execFollower) finish(blankLines int) error {
	if f.done == nil {
		return nil // it never started
	}
	last := f.screen.EndWithout(lineEnd, blankLines)
	f.limit(func(int64) (int64, bool) { return last, true })
	<-f.done
	return f.err
}

func (f *execFollower) limit(until func(end int64) (int64, bool)) {
	f.screen.Update(func() { f.until = until })
}
