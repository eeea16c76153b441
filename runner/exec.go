package main

import (
	"syscall"
	"time"
)

const (
	defaultTimeout     = 30 * time.Second
	defaultOutputBytes = 1 << 20
	maxCommandBytes    = 1 << 20
	interruptGrace     = 300 * time.Millisecond // between SIGINT and SIGKILL
	returnGrace        = time.Second            // for the shell itself after SIGKILL
	stopPolling        = 15 * time.Millisecond
	timeoutCode        = 124
)

type execRequest struct {
	Cmd            string `json:"cmd"`
	Shell          string `json:"shell"`
	TimeoutMS      int64  `json:"timeout_ms"`
	MaxOutputBytes *int   `json:"max_output_bytes"`
}

// notBegun is the failure of a command that never reached its shell.
type notBegun struct{ reason *runnerError }

func (e *notBegun) Error() string { return e.reason.message }
func (e *notBegun) Unwrap() error { return e.reason }

// An execResult is how a command ended.
type execResult struct {
	exitCode    int
	cwd         string
	timedOut    bool
	shellExited bool
	duration    time.Duration
}

func (r *execResult) fields() fields {
	f := fields{
		"exit_code": r.exitCode, "cwd": text(r.cwd), "timed_out": r.timedOut, "shell_exited": r.shellExited,
		"duration_ms": float64(r.duration.Microseconds()) / 1000,
	}
	addExact(f, "cwd", r.cwd)
	return f
}

// run evaluates one command in the shell. The caller has the shell's turn.
// begin is called when the shell is free and the command is about to start.
func (sh *shell) run(cmd string, timeout time.Duration, into *capture, begin func()) (*execResult, error) {
	if err := sh.claim(); err != nil {
		return nil, err
	}
	if stray := sh.drain(into); stray != nil && into != nil {
		early, _ := stray.bytes()
		into.write(early)
	}
	begin()
	started := time.Now()
	sinceTicks := bootTicks()
	if err := sh.tell(cmd); err != nil {
		sh.kill()
		return nil, err
	}
	result := sh.await(timeout, sinceTicks)
	result.duration = time.Since(started)
	sh.release()
	return result, nil
}

// tell hands the command to the driver. One that died meanwhile has closed its files; await says so.
func (sh *shell) tell(cmd string) error {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.state == shellEnded {
		return nil
	}
	if err := sh.putCommand(cmd); err != nil {
		return err
	}
	sh.isTold = true
	sh.instruct(instructRun)
	return nil
}

// claim takes the shell from idle, or from the prompt, to running.
func (sh *shell) claim() error {
	for {
		sh.mu.Lock()
		state := sh.state
		if state == shellIdle {
			// From here on a late report about the last command has a number that is past.
			sh.state, sh.isTold = shellRunning, false
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
			sh.takeFromPrompt()
		default:
			return &notBegun{&runnerError{codeShellExited, "shell " + sh.name + " ended before the command began", fields{"name": sh.name}}}
		}
	}
}

// release gives the shell back: to the prompt when a terminal is attached.
func (sh *shell) release() {
	next := newCapture(shellKept)
	sh.mu.Lock()
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

// await waits for the command to end, and makes it end when its time is up.
func (sh *shell) await(timeout time.Duration, sinceTicks int64) *execResult {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case r := <-sh.reports:
		return &execResult{exitCode: r.status, cwd: sh.directory()}
	case <-sh.ended:
		return sh.exited(false)
	case <-timer.C:
	}
	if sh.stop(sinceTicks) {
		return &execResult{exitCode: timeoutCode, cwd: sh.directory(), timedOut: true}
	}
	return sh.exited(true)
}

// stop ends the foreground job. It is true when the shell lives on.
func (sh *shell) stop(sinceTicks int64) bool {
	victims := sh.foregroundJob(sinceTicks)
	by := &interrupter{sh: sh}
	for deadline := time.Now().Add(interruptGrace); time.Now().Before(deadline); {
		by.interrupt()
		if done, alive := sh.doneWithin(stopPolling); done {
			killAll(victims) // the interrupt ended the job, but not those of its processes that ignore it
			return by.settle(alive)
		}
	}
	for deadline := time.Now().Add(returnGrace); time.Now().Before(deadline); {
		killAll(append(sh.foregroundJob(sinceTicks), victims...))
		syscall.Kill(sh.pid, syscall.SIGCONT)
		by.interrupt()
		if done, alive := sh.doneWithin(stopPolling); done {
			return by.settle(alive)
		}
	}
	sh.kill()
	<-sh.ended
	return false
}

func (sh *shell) doneWithin(d time.Duration) (done, alive bool) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-sh.reports:
		return true, true
	case <-sh.ended:
		return true, false
	case <-timer.C:
		return false, true
	}
}

// foregroundJob finds the processes of the running command: the terminal's
// foreground group and all its descendants in the session. The shell itself
// is none, nor is a job that an earlier command left in the background.
func (sh *shell) foregroundJob(sinceTicks int64) []procStat {
	group := sh.foreground()
	all := sessionProcesses(sh.pid)
	chosen := map[int]bool{}
	var job []procStat
	for grew := true; grew; {
		grew = false
		for _, p := range all {
			if p.pid == sh.pid || chosen[p.pid] {
				continue
			}
			isRoot := p.group == group && (group != sh.pid || p.started >= sinceTicks)
			if isRoot || chosen[p.parent] {
				chosen[p.pid], grew = true, true
				job = append(job, p)
			}
		}
	}
	return job
}

// killAll sends SIGKILL to those that are still the processes they were.
func killAll(list []procStat) {
	for _, p := range list {
		if current, ok := readStat(p.pid); ok && current.started == p.started {
			syscall.Kill(p.pid, syscall.SIGKILL)
		}
	}
}

func (sh *shell) exited(timedOut bool) *execResult {
	code := sh.exitCode
	if timedOut {
		code = timeoutCode
	}
	return &execResult{exitCode: code, cwd: sh.directory(), timedOut: timedOut, shellExited: true}
}

func (sh *shell) directory() string {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return sh.cwd
}
