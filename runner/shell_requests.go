package main

import (
	"syscall"
	"time"
)

var shellHandlers = map[string]handler{
	"exec":            answerExec,
	"exec.cancel":     cancelExec,
	"shell.create":    createShell,
	"shell.list":      answerShells,
	"shell.remove":    removeShell,
	"shell.interrupt": interruptShell,
}

var shellStreams = map[string]streamHandler{
	"exec":         streamExec,
	"shell.attach": attachShell,
}

const hangupGrace = time.Second // between SIGHUP and SIGKILL when a shell is removed

func createShell(run *runner, q *request) (fields, []byte, error) {
	var spec shellSpec
	if err := q.decode(&spec); err != nil {
		return nil, nil, err
	}
	if err := checkSize(spec.Rows, spec.Cols); err != nil {
		return nil, nil, err
	}
	exists := &runnerError{codeShellExists, "a shell named " + spec.Name + " already exists", fields{"name": spec.Name}}
	if run.findShell(spec.Name) != nil {
		return nil, nil, exists // without waiting for what runs in it
	}
	turn := run.shells.lines.join(spec.Name)
	defer turn.leave()
	turn.wait()
	sh, isNew, err := run.openShell(&spec)
	if err != nil {
		return nil, nil, err
	}
	if !isNew {
		return nil, nil, exists
	}
	return fields{"shell": sh.describe()}, nil, nil
}

func answerShells(run *runner, _ *request) (fields, []byte, error) {
	list := []fields{}
	for _, sh := range run.listShells() {
		list = append(list, sh.describe())
	}
	return fields{"shells": list}, nil, nil
}

func removeShell(run *runner, q *request) (fields, []byte, error) {
	var spec shellSpec
	if err := q.decode(&spec); err != nil {
		return nil, nil, err
	}
	sh := run.findShell(spec.Name)
	if sh == nil {
		return nil, nil, noShell(spec.Name)
	}
	members := sessionProcesses(sh.pid)
	for _, p := range members {
		syscall.Kill(p.pid, syscall.SIGHUP)
		syscall.Kill(p.pid, syscall.SIGCONT)
	}
	select {
	case <-sh.ended:
	case <-time.After(hangupGrace):
	}
	deadline := time.Now().Add(hangupGrace)
	for left := members; len(left) > 0 && time.Now().Before(deadline); left = sessionProcesses(sh.pid) {
		killAll(left)
		time.Sleep(time.Millisecond)
	}
	<-sh.ended
	return fields{"ok": true}, nil, nil
}

func checkSize(rows, cols int) error {
	if rows < 0 || rows > 1000 || cols < 0 || cols > 1000 {
		return invalid("rows and cols must be 1 to 1000")
	}
	return nil
}

func noShell(name string) *runnerError {
	return &runnerError{codeShellNotFound, "no shell " + name, fields{"name": name}}
}
