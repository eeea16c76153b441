package process

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"time"

	"sandglass/runner/internal/procfs"
	"sandglass/runner/internal/stdio"
	"sandglass/runner/internal/terminal"
	"sandglass/runner/internal/wire"
)

// Handlers answer the requests about processes.
func (ps *Table) Handlers() map[string]wire.Handler {
	return map[string]wire.Handler{
		"process.start":  ps.answerStart,
		"process.list":   ps.answerList,
		"process.get":    ps.answerGet,
		"process.signal": ps.answerSignal,
		"process.stdin":  ps.answerStdin,
	}
}

func (ps *Table) Streams() map[string]wire.StreamHandler {
	return map[string]wire.StreamHandler{
		"process.attach": ps.attach,
		"process.table":  ps.streamTable,
	}
}

var signals = map[string]syscall.Signal{
	"HUP": syscall.SIGHUP, "INT": syscall.SIGINT, "QUIT": syscall.SIGQUIT, "KILL": syscall.SIGKILL,
	"USR1": syscall.SIGUSR1, "USR2": syscall.SIGUSR2, "TERM": syscall.SIGTERM, "CONT": syscall.SIGCONT,
	"STOP": syscall.SIGSTOP, "TSTP": syscall.SIGTSTP, "WINCH": syscall.SIGWINCH,
}

func (ps *Table) answerStart(q *wire.Request) (wire.Fields, []byte, error) {
	spec := &Spec{}
	if err := q.Decode(spec); err != nil {
		return nil, nil, err
	}
	if spec.Tag != nil && !isTag(*spec.Tag) {
		return nil, nil, wire.Invalid("tag must be 1 to 64 of letters, digits and _.:-")
	}
	for _, arg := range spec.Argv {
		if strings.ContainsRune(arg, 0) {
			return nil, nil, wire.Invalid("argv must not contain NUL")
		}
	}
	if spec.TTY != nil {
		if err := terminal.CheckSize(spec.TTY.Rows, spec.TTY.Cols); err != nil {
			return nil, nil, err
		}
	}
	if spec.HoldOutput && spec.KeepOutput {
		return nil, nil, wire.Invalid("only one of hold_output and keep_output may be set")
	}
	p, err := ps.Start(spec)
	if err != nil {
		return nil, nil, err
	}
	return wire.Fields{"process": p.Describe()}, nil, nil
}

func (ps *Table) answerList(_ *wire.Request) (wire.Fields, []byte, error) {
	list := []wire.Fields{}
	for _, p := range ps.all() {
		list = append(list, p.Describe())
	}
	return wire.Fields{"processes": list}, nil, nil
}

// A call has the fields of the requests about one process.
type call struct {
	PID    int    `json:"pid"`
	Signal string `json:"signal"`
	Group  *bool  `json:"group"`
	Close  bool   `json:"close"`
	terminal.Size
	StdoutFrom int64 `json:"stdout_from"`
	StderrFrom int64 `json:"stderr_from"`
	Follow     *bool `json:"follow"` // of process.attach; false ends the stream after the output so far

	Stdout *int64 `json:"stdout"` // of ack: the bytes before this offset are stored
	Stderr *int64 `json:"stderr"`
}

// requested returns the process that a request names.
func (ps *Table) requested(q *wire.Request) (*Process, *call, error) {
	call := &call{}
	if err := q.Decode(call); err != nil {
		return nil, nil, err
	}
	p, err := ps.find(call.PID)
	return p, call, err
}

func (ps *Table) answerGet(q *wire.Request) (wire.Fields, []byte, error) {
	p, _, err := ps.requested(q)
	if err != nil {
		return nil, nil, err
	}
	return wire.Fields{"process": p.Describe()}, nil, nil
}

func (ps *Table) answerSignal(q *wire.Request) (wire.Fields, []byte, error) {
	p, call, err := ps.requested(q)
	if p == nil && call != nil && isSandboxProcess(call.PID) {
		err = signalOther(call)
	} else if err == nil {
		err = p.Signal(call.Signal, call.Group == nil || *call.Group)
	}
	if err != nil {
		return nil, nil, err
	}
	return wire.Fields{"ok": true}, nil, nil
}

// isSandboxProcess tells whether a pid is that of any process of the sandbox, such as a child of a shell.
func isSandboxProcess(pid int) bool {
	for _, p := range procfs.SandboxProcesses() {
		if p.PID == pid {
			return true
		}
	}
	return false
}

// signalOther signals a process that was not started with process.start: alone, unless the request asks for its
// group, which it may share with others.
func signalOther(call *call) error {
	sig, err := signalOf(call.Signal)
	if err != nil {
		return err
	}
	target := call.PID
	if call.Group != nil && *call.Group {
		if stat, ok := procfs.Read(call.PID); ok && stat.Group > 1 && stat.Group != syscall.Getpgrp() {
			target = -stat.Group
		}
	}
	return sendSignal(target, sig, call.PID)
}

func signalOf(name string) (syscall.Signal, error) {
	sig, ok := signals[strings.TrimPrefix(name, "SIG")]
	if !ok {
		return 0, wire.Invalid("unknown signal %q", name)
	}
	return sig, nil
}

// sendSignal signals a process, or a group if target is negative. pid is for the error.
func sendSignal(target int, sig syscall.Signal, pid int) error {
	err := syscall.Kill(target, sig)
	if errors.Is(err, syscall.ESRCH) {
		return hasEnded(pid)
	}
	return err
}

func hasEnded(pid int) error {
	return wire.NewError(wire.CodeProcessNotFound, fmt.Sprintf("process %d has ended", pid), wire.Fields{"pid": pid})
}

// Signal signals the process, or its whole group.
func (p *Process) Signal(name string, group bool) error {
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

func (p *Process) hasEnded() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.exitCode != nil
}

func (ps *Table) answerStdin(q *wire.Request) (wire.Fields, []byte, error) {
	p, call, err := ps.requested(q)
	if err != nil {
		return nil, nil, err
	}
	if waiting := p.pendingInput.Add(q.Size); waiting > q.Size && waiting > maxPendingInput {
		p.pendingInput.Add(-q.Size)
		return nil, nil, wire.TooManyWaiting("bytes for stdin", maxPendingInput)
	}
	defer p.pendingInput.Add(-q.Size)
	// Read the whole body first: a process that does not read must not block the other requests of the connection.
	data, err := io.ReadAll(q.Body)
	if err != nil {
		return nil, nil, err
	}
	if err := p.write(data, q.IsGone); err != nil {
		return nil, nil, err
	}
	if call.Close {
		p.endInput(q.IsGone)
	}
	return wire.Fields{"ok": true}, nil, nil
}

// write writes to stdin and waits while it is full. The bytes of one call stay together.
func (p *Process) write(data []byte, isGone func() bool) error {
	p.stdinMu.Lock()
	stdin := p.stdin
	p.stdinMu.Unlock()
	if stdin == nil {
		return wire.Invalid("process %d has no open stdin", p.pid)
	}
	if len(data) == 0 {
		return nil
	}
	for since := time.Now(); ; {
		select {
		case p.writing <- struct{}{}:
			defer func() { <-p.writing }()
			return p.inputError(stdio.Write(stdin, data, isGone))
		case <-p.Ended:
			return p.inputError(os.ErrClosed)
		case <-time.After(stdio.PollInterval):
			if isGone() && time.Since(since) > stdio.GoneGrace {
				return stdio.ErrClientGone
			}
		}
	}
}

func (p *Process) inputError(err error) error {
	if errors.Is(err, syscall.EPIPE) || errors.Is(err, os.ErrClosed) || errors.Is(err, syscall.EIO) {
		return wire.Invalid("process %d has closed its stdin", p.pid)
	}
	return err
}

// endInput closes stdin. On a terminal it types the end-of-file character.
func (p *Process) endInput(isGone func() bool) {
	if p.term != nil {
		p.write([]byte{4}, isGone)
		return
	}
	p.closeInput()
}

// isTag tells whether a tag has 1 to 64 letters, digits and _.:-, the first of them a letter or a digit.
func isTag(tag string) bool { return wire.IsName(tag, 64, wire.Letters+wire.Digits, "_.:-") }
