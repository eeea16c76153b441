package shell

import (
	"syscall"
	"time"

	"sandglass/runner/internal/procfs"
	"sandglass/runner/internal/terminal"
	"sandglass/runner/internal/wire"
)

// Handlers answer the requests about shells and their commands.
func (ss *Shells) Handlers() map[string]wire.Handler {
	return map[string]wire.Handler{
		"exec":            ss.answerExec,
		"exec.cancel":     ss.answerCancel,
		"shell.create":    ss.answerCreate,
		"shell.list":      ss.answerList,
		"shell.remove":    ss.answerRemove,
		"shell.interrupt": ss.answerInterrupt,
	}
}

func (ss *Shells) Streams() map[string]wire.StreamHandler {
	return map[string]wire.StreamHandler{
		"exec":         ss.streamExec,
		"shell.attach": ss.attach,
	}
}

const hangupGrace = time.Second // between SIGHUP and SIGKILL when a shell is removed

func (ss *Shells) answerCreate(q *wire.Request) (wire.Fields, []byte, error) {
	var spec spec
	if err := q.Decode(&spec); err != nil {
		return nil, nil, err
	}
	if err := terminal.CheckSize(spec.Rows, spec.Cols); err != nil {
		return nil, nil, err
	}
	exists := wire.NewError(wire.CodeShellExists, "a shell named "+spec.Name+" already exists", wire.Fields{"name": spec.Name})
	if ss.find(spec.Name) != nil {
		return nil, nil, exists // do not wait for the command that runs in it
	}
	lock := ss.locks.queue(spec.Name)
	defer lock.release()
	lock.wait()
	sh, isNew, err := ss.open(&spec)
	if err != nil {
		return nil, nil, err
	}
	if !isNew {
		return nil, nil, exists
	}
	return wire.Fields{"shell": sh.describe()}, nil, nil
}

func (ss *Shells) answerList(_ *wire.Request) (wire.Fields, []byte, error) {
	list := []wire.Fields{}
	for _, sh := range ss.list() {
		list = append(list, sh.describe())
	}
	return wire.Fields{"shells": list}, nil, nil
}

func (ss *Shells) answerRemove(q *wire.Request) (wire.Fields, []byte, error) {
	var spec spec
	if err := q.Decode(&spec); err != nil {
		return nil, nil, err
	}
	sh := ss.find(spec.Name)
	if sh == nil {
		return nil, nil, noShell(spec.Name)
	}
	members := procfs.InSession(sh.pid)
	for _, p := range members {
		syscall.Kill(p.PID, syscall.SIGHUP)
		syscall.Kill(p.PID, syscall.SIGCONT)
	}
	select {
	case <-sh.ended:
	case <-time.After(hangupGrace):
	}
	deadline := time.Now().Add(hangupGrace)
	for left := members; len(left) > 0 && time.Now().Before(deadline); left = procfs.InSession(sh.pid) {
		procfs.Kill(left)
		time.Sleep(time.Millisecond)
	}
	<-sh.ended
	return wire.Fields{"ok": true}, nil, nil
}

func noShell(name string) *wire.Error {
	return wire.NewError(wire.CodeShellNotFound, "no shell "+name, wire.Fields{"name": name})
}
