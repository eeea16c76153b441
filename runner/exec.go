package main

import (
	"errors"
	"time"
)

const (
	defaultOutputBytes = 1 << 20
	maxCommandBytes    = 1 << 20
	timeoutCode        = 124
	interruptedCode    = 130 // of a command that was withdrawn before it began
	lineEnd            = "\r\n"
)

// notBegun is the failure of a command that never reached its shell.
type notBegun struct{ reason *runnerError }

func (e *notBegun) Error() string { return e.reason.message }
func (e *notBegun) Unwrap() error { return e.reason }

// errStopped says that the command was stopped while another one had the shell.
var errStopped = errors.New("stopped before it began")

// An execResult is how a command ended.
type execResult struct {
	exitCode    int
	cwd         string
	timedOut    bool
	neverBegan  bool
	shellExited bool
	duration    time.Duration
	blankLines  int // at the end of the output, printed by the shell when it was interrupted
}

func (r *execResult) fields() fields {
	f := fields{
		"exit_code": r.exitCode, "cwd": text(r.cwd), "timed_out": r.timedOut, "started": !r.neverBegan, "shell_exited": r.shellExited,
		"duration_ms": float64(r.duration.Microseconds()) / 1000,
	}
	addExact(f, "cwd", r.cwd)
	return f
}

// run evaluates one command in the shell. The caller has the shell's turn.
func (sh *shell) run(e *execution, into *capture, watcher execWatcher) (*execResult, error) {
	if err := sh.claim(e, watcher); err != nil {
		return nil, err
	}
	if stray := sh.drain(into); stray != nil && into != nil {
		early, _ := stray.bytes()
		into.write(early)
	}
	watcher.begins(sh)
	started := time.Now()
	sinceTicks := bootTicks()
	if err := sh.tell(e); err != nil {
		sh.kill()
		return nil, err
	}
	result, err := sh.await(e, sinceTicks, watcher)
	sh.release()
	if err != nil {
		return nil, err
	}
	result.duration = time.Since(started)
	return result, nil
}

// tell hands the command to the driver. One that died meanwhile has closed its files; await says so.
func (sh *shell) tell(e *execution) error {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.state == shellEnded {
		return nil
	}
	letter, err := sh.putCommand(e)
	if err != nil {
		return err
	}
	sh.told = letter
	sh.instruct(letter)
	return nil
}

// claim takes the shell from idle, or from the prompt, to running.
func (sh *shell) claim(e *execution, watcher execWatcher) error {
	for {
		if e.isStopped() {
			return errStopped
		}
		sh.mu.Lock()
		state := sh.state
		if state == shellIdle {
			// From here on a late report about the last command has a number that is past.
			sh.state, sh.told, sh.current, sh.anew = shellRunning, "", e, 0
			sh.number++
			select {
			case <-sh.reports:
			default:
			}
		}
		sh.mu.Unlock()
		switch state {
		case shellIdle:
			return nil
		case shellPrompt:
			sh.takeFromPrompt(e, watcher)
		default:
			return &notBegun{&runnerError{codeShellExited, "shell " + sh.name + " ended before the command began", fields{"name": sh.name}}}
		}
	}
}

// release gives the shell back: to the prompt when a terminal is attached.
func (sh *shell) release() {
	next := newCapture(shellKept)
	sh.mu.Lock()
	sh.current = nil
	if sh.state == shellRunning {
		sh.state = shellIdle
		if sh.attached > 0 && sh.program == "bash" {
			sh.state, next = shellPrompt, nil
		}
	}
	prompt := sh.state == shellPrompt
	sh.mu.Unlock()
	sh.drain(next)
	if prompt {
		sh.mu.Lock()
		sh.instruct(instructPrompt)
		sh.mu.Unlock()
	}
}

// await waits for the command to end, and makes it end when it is stopped.
func (sh *shell) await(e *execution, sinceTicks int64, watcher execWatcher) (*execResult, error) {
	select {
	case r := <-sh.reports:
		if r.status == cannotEnter && e.Cwd != "" {
			return nil, &runnerError{codePermissionDenied, "permission denied: " + e.Cwd, fields{"path": e.Cwd}}
		}
		return &execResult{exitCode: r.status, cwd: sh.directory()}, nil
	case <-sh.ended:
		return sh.exited(), nil
	case <-e.stopped:
	}
	watcher.isEnded()
	var r *execResult
	if last, blankLines, alive := sh.stopCommand(sinceTicks); alive {
		r = &execResult{exitCode: last.status, cwd: sh.directory(), blankLines: blankLines}
	} else {
		r = sh.exited()
	}
	if e.why == timeIsUp {
		r.exitCode, r.timedOut = timeoutCode, true
	}
	return r, nil
}

func (sh *shell) exited() *execResult {
	return &execResult{exitCode: sh.exitCode, cwd: sh.directory(), shellExited: true}
}

func (sh *shell) directory() string {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return sh.cwd
}
