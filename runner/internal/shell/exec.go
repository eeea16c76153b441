package shell

import (
	"errors"
	"time"

	"sandglass/runner/internal/procfs"
	"sandglass/runner/internal/spawn"
	"sandglass/runner/internal/stdio"
	"sandglass/runner/internal/wire"
)

const (
	defaultOutputBytes = 1 << 20
	maxCommandBytes    = 1 << 20
	interruptedCode    = 130 // of a command that was cancelled before it started
	lineEnd            = "\r\n"
)

// notStarted is the failure of a command whose shell ended before the command started.
type notStarted struct{ reason *wire.Error }

func (e *notStarted) Error() string { return e.reason.Message }

func (e *notStarted) Unwrap() error { return e.reason }

// errStoppedEarly is the failure of a command that was stopped while it waited for its shell.
var errStoppedEarly = errors.New("stopped before it started")

// An execResult describes how a command ended.
type execResult struct {
	exitCode     int
	cwd          string
	timedOut     bool
	neverStarted bool
	shellExited  bool
	duration     time.Duration
	blankLines   int // printed by the shell at the end of the output when it was interrupted
}

func (r *execResult) fields() wire.Fields {
	f := wire.Fields{
		"exit_code": r.exitCode, "cwd": wire.Text(r.cwd), "timed_out": r.timedOut, "started": !r.neverStarted, "shell_exited": r.shellExited,
		"duration_ms": float64(r.duration.Microseconds()) / 1000,
	}
	wire.AddExact(f, "cwd", r.cwd)
	return f
}

// run evaluates one command in the shell. The caller holds the lock of the shell.
func (sh *Shell) run(e *execution, into *stdio.Capture, watcher watcher) (*execResult, error) {
	if err := sh.claim(e, watcher); err != nil {
		return nil, err
	}
	if stray := sh.drain(into); stray != nil && into != nil {
		early, _ := stray.Bytes()
		into.Write(early)
	}
	watcher.onStart(sh)
	started := time.Now()
	sinceTicks := procfs.BootTicks()
	if err := sh.send(e); err != nil {
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

// send passes the command to the driver. A driver that has ended is detected by await.
func (sh *Shell) send(e *execution) error {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.state == stateEnded {
		return nil
	}
	letter, err := sh.putCommand(e)
	if err != nil {
		return err
	}
	sh.instruction = letter
	sh.instruct(letter)
	return nil
}

// claim makes an idle shell, or one at its prompt, run the command.
func (sh *Shell) claim(e *execution, watcher watcher) error {
	for {
		if e.isStopped() {
			return errStoppedEarly
		}
		sh.mu.Lock()
		state := sh.state
		if state == stateIdle {
			// From here on a late report about the previous command has an outdated number.
			sh.state, sh.instruction, sh.current, sh.interruptReports = stateRunning, "", e, 0
			sh.number++
			select {
			case <-sh.reports:
			default:
			}
		}
		sh.mu.Unlock()
		switch state {
		case stateIdle:
			return nil
		case stateAtPrompt:
			sh.claimFromPrompt(e, watcher)
		default:
			return &notStarted{wire.NewError(wire.CodeShellExited, "shell "+sh.name+" ended before the command started", wire.Fields{"name": sh.name})}
		}
	}
}

// release makes the shell idle again, or shows its prompt if a terminal is attached.
func (sh *Shell) release() {
	next := stdio.NewCapture(keptBytes)
	sh.mu.Lock()
	sh.current = nil
	if sh.state == stateRunning {
		sh.state = stateIdle
		if sh.attached > 0 && sh.program == "bash" {
			sh.state, next = stateAtPrompt, nil
		}
	}
	prompt := sh.state == stateAtPrompt
	sh.mu.Unlock()
	sh.drain(next)
	if prompt {
		sh.mu.Lock()
		sh.instruct(instructPrompt)
		sh.mu.Unlock()
	}
}

// await waits for the command to end, and ends it when the execution is stopped.
func (sh *Shell) await(e *execution, sinceTicks int64, watcher watcher) (*execResult, error) {
	select {
	case r := <-sh.reports:
		if r.status == cannotEnter && e.Cwd != "" {
			return nil, wire.NewError(wire.CodePermissionDenied, "permission denied: "+e.Cwd, wire.Fields{"path": e.Cwd})
		}
		return &execResult{exitCode: r.status, cwd: sh.directory()}, nil
	case <-sh.ended:
		return sh.exited(), nil
	case <-e.stopped:
	}
	watcher.onStop()
	var r *execResult
	if last, blankLines, alive := sh.stopCommand(sinceTicks); alive {
		r = &execResult{exitCode: last.status, cwd: sh.directory(), blankLines: blankLines}
	} else {
		r = sh.exited()
	}
	if e.reason == timedOut {
		r.exitCode, r.timedOut = spawn.TimeoutStatus, true
	}
	return r, nil
}

func (sh *Shell) exited() *execResult {
	return &execResult{exitCode: sh.exitCode, cwd: sh.directory(), shellExited: true}
}

func (sh *Shell) directory() string {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return sh.cwd
}
