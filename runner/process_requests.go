package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"time"
)

var processHandlers = map[string]handler{
	"process.start":  answerStart,
	"process.list":   answerProcesses,
	"process.get":    answerProcess,
	"process.signal": signalProcess,
	"process.stdin":  feedProcess,
}

var processStreams = map[string]streamHandler{
	"process.attach": attachProcess,
	"process.table":  streamTable,
}

var signals = map[string]syscall.Signal{
	"HUP": syscall.SIGHUP, "INT": syscall.SIGINT, "QUIT": syscall.SIGQUIT, "KILL": syscall.SIGKILL,
	"USR1": syscall.SIGUSR1, "USR2": syscall.SIGUSR2, "TERM": syscall.SIGTERM, "CONT": syscall.SIGCONT,
	"STOP": syscall.SIGSTOP, "TSTP": syscall.SIGTSTP, "WINCH": syscall.SIGWINCH,
}

func answerStart(run *runner, q *request) (fields, []byte, error) {
	spec := &processSpec{}
	if err := q.decode(spec); err != nil {
		return nil, nil, err
	}
	if spec.Tag != nil && !isProcessTag(*spec.Tag) {
		return nil, nil, invalid("tag must be 1 to 64 of letters, digits and _.:-")
	}
	for _, arg := range spec.Argv {
		if strings.ContainsRune(arg, 0) {
			return nil, nil, invalid("argv must not contain NUL")
		}
	}
	if spec.TTY != nil {
		if err := checkSize(spec.TTY.Rows, spec.TTY.Cols); err != nil {
			return nil, nil, err
		}
	}
	p, err := run.startProcess(spec)
	if err != nil {
		return nil, nil, err
	}
	return fields{"process": p.describe()}, nil, nil
}

func answerProcesses(run *runner, _ *request) (fields, []byte, error) {
	list := []fields{}
	for _, p := range run.processes.all() {
		list = append(list, p.describe())
	}
	return fields{"processes": list}, nil, nil
}

// A processCall is what the requests about one process have in common.
type processCall struct {
	PID    int    `json:"pid"`
	Signal string `json:"signal"`
	Group  *bool  `json:"group"`
	Close  bool   `json:"close"`
	size
	StdoutFrom int64 `json:"stdout_from"`
	StderrFrom int64 `json:"stderr_from"`
	Follow     *bool `json:"follow"` // of an attachment; false: it ends after the output so far
}

func (run *runner) processOf(q *request) (*process, *processCall, error) {
	call := &processCall{}
	if err := q.decode(call); err != nil {
		return nil, nil, err
	}
	p, err := run.processes.find(call.PID)
	return p, call, err
}

func answerProcess(run *runner, q *request) (fields, []byte, error) {
	p, _, err := run.processOf(q)
	if err != nil {
		return nil, nil, err
	}
	return fields{"process": p.describe()}, nil, nil
}

func signalProcess(run *runner, q *request) (fields, []byte, error) {
	p, call, err := run.processOf(q)
	if p == nil && call != nil && isOthers(call.PID) {
		err = signalOther(call)
	} else if err == nil {
		err = p.signal(call.Signal, call.Group == nil || *call.Group)
	}
	if err != nil {
		return nil, nil, err
	}
	return fields{"ok": true}, nil, nil
}

// isOthers tells whether this is a process of the sandbox that was not started through the API, a child of a shell for instance.
func isOthers(pid int) bool {
	for _, p := range everyone() {
		if p.pid == pid {
			return true
		}
	}
	return false
}

// signalOther signals the one process unless its group was asked for: it may share its group with others.
func signalOther(call *processCall) error {
	sig, err := signalOf(call.Signal)
	if err != nil {
		return err
	}
	target := call.PID
	if call.Group != nil && *call.Group {
		if stat, ok := readStat(call.PID); ok && stat.group > 1 && stat.group != syscall.Getpgrp() {
			target = -stat.group
		}
	}
	return sendSignal(target, sig, call.PID)
}

func signalOf(name string) (syscall.Signal, error) {
	sig, ok := signals[strings.TrimPrefix(name, "SIG")]
	if !ok {
		return 0, invalid("unknown signal %q", name)
	}
	return sig, nil
}

// sendSignal sends to a process, or with a negative target to a group; pid is for the error.
func sendSignal(target int, sig syscall.Signal, pid int) error {
	err := syscall.Kill(target, sig)
	if errors.Is(err, syscall.ESRCH) {
		return hasEnded(pid)
	}
	return err
}

func hasEnded(pid int) error {
	return &runnerError{codeProcessNotFound, fmt.Sprintf("process %d has ended", pid), fields{"pid": pid}}
}

// signal sends to the process, or to its whole group.
func (p *process) signal(name string, group bool) error {
	sig, err := signalOf(name)
	if err != nil {
		return err
	}
	target := p.pid
	if group {
		target = -p.pid
	} else if p.hasEnded() {
		return hasEnded(p.pid)
	}
	return sendSignal(target, sig, p.pid)
}

func (p *process) hasEnded() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.exitCode != nil
}

func feedProcess(run *runner, q *request) (fields, []byte, error) {
	p, call, err := run.processOf(q)
	if err != nil {
		return nil, nil, err
	}
	if waiting := p.waiting.Add(q.size); waiting > q.size && waiting > maxWaitingInput {
		p.waiting.Add(-q.size)
		return nil, nil, tooManyWaiting("bytes for stdin", maxWaitingInput)
	}
	defer p.waiting.Add(-q.size)
	// All of it is read first: a process that does not read must not hold up the other requests of the connection.
	data, err := io.ReadAll(q.body)
	if err != nil {
		return nil, nil, err
	}
	if err := p.feed(data, q.isGone); err != nil {
		return nil, nil, err
	}
	if call.Close {
		p.endInput(q.isGone)
	}
	return fields{"ok": true}, nil, nil
}

// feed writes to the process's stdin, waiting while it is full. The bytes of one call stay together.
func (p *process) feed(data []byte, isGone func() bool) error {
	p.stdinMu.Lock()
	stdin := p.stdin
	p.stdinMu.Unlock()
	if stdin == nil {
		return invalid("process %d has no open stdin", p.pid)
	}
	if len(data) == 0 {
		return nil
	}
	for since := time.Now(); ; {
		select {
		case p.feeding <- struct{}{}:
			defer func() { <-p.feeding }()
			return p.inputError(feed(stdin, data, isGone))
		case <-p.ended:
			return p.inputError(os.ErrClosed)
		case <-time.After(fullCheck):
			if isGone() && time.Since(since) > goneGrace {
				return errClientGone
			}
		}
	}
}

func (p *process) inputError(err error) error {
	if errors.Is(err, syscall.EPIPE) || errors.Is(err, os.ErrClosed) || errors.Is(err, syscall.EIO) {
		return invalid("process %d has closed its stdin", p.pid)
	}
	return err
}

// endInput closes stdin; on a terminal it types the end-of-file key.
func (p *process) endInput(isGone func() bool) {
	if p.term != nil {
		p.feed([]byte{4}, isGone)
		return
	}
	p.closeInput()
}
