package shell

import (
	"syscall"
	"time"

	"sandglass/runner/internal/procfs"
)

const (
	settleTime  = 2 * time.Second // for a shell that was interrupted to say that it waits for an instruction
	settleAgain = 50 * time.Millisecond
)

// An interrupter sends SIGINT to the foreground groups of a shell's terminal,
// once to each: a loop of short programs has a fresh group at every moment, and
// a program that cleans up after the first interrupt must not get a second.
//
// The shell gets it first, for a shell that is not interrupted itself goes on with the rest of the command line once its
// program has ended in any other way than by SIGINT. bash acts on it when that program is over.
type interrupter struct {
	sh   *Shell
	last int // group that got the signal last
}

func (by *interrupter) interrupt() {
	sh := by.sh
	if by.last == 0 {
		syscall.Kill(sh.pid, syscall.SIGINT)
		by.last = sh.pid
	}
	group := sh.foreground()
	if group <= 0 || group == by.last || group == sh.pid {
		return
	}
	if syscall.Kill(-group, syscall.SIGINT) == nil {
		by.last = group
		syscall.Kill(-group, syscall.SIGCONT)
	}
}

// settle waits until a shell that was interrupted has dealt with every interrupt: one may meet it when it is already back,
// and what it prints then belongs to this command. bash looks for interrupts between two commands, and so between two reports.
func (by *interrupter) settle(alive bool) bool {
	if !alive || by.sh.program != "bash" {
		return alive
	}
	deadline := time.Now().Add(settleTime)
	return by.sh.sync(deadline) && by.sh.sync(deadline)
}

// sync asks the driver for a report and waits for it. It is false when the shell ended.
func (sh *Shell) sync(deadline time.Time) bool {
	select {
	case <-sh.synced: // the answer to an earlier question
	default:
	}
	for time.Now().Before(deadline) {
		sh.mu.Lock()
		isDriven := sh.state == running
		if isDriven {
			sh.instruct(instructReport) // again and again: an interrupt may take the instruction with it
		}
		sh.mu.Unlock()
		if !isDriven {
			return true
		}
		select {
		case <-sh.synced:
			return true
		case <-sh.ended:
			return false
		case <-time.After(settleAgain):
		}
	}
	return true
}

// foreground is the process group that the terminal's keys act on. Where the kernel does not tell, it is the youngest of those that the shell has
// started since it was last told anything, or the shell's own.
func (sh *Shell) foreground() int {
	group, isTold := sh.term.ForegroundGroup()
	if isTold {
		return group
	}
	return youngestGroup(procfs.InSession(sh.pid), sh.pid, sh.instructedAt.Load())
}

func youngestGroup(processes []procfs.Process, shell int, since int64) int {
	youngest := procfs.Process{Group: shell}
	for _, p := range processes {
		if p.Parent == shell && p.Group != shell && p.Started >= since && p.Started >= youngest.Started {
			youngest = p
		}
	}
	return youngest.Group
}
