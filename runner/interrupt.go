package main

import (
	"syscall"
	"time"
)

const (
	shellOwnTime = 100 * time.Millisecond // for a shell to come back by itself once its job is gone
	settleTime   = 2 * time.Second        // for a shell that was interrupted to say that it waits for an instruction
	settleAgain  = 50 * time.Millisecond
)

// An interrupter sends SIGINT to the foreground groups of a shell's terminal,
// once to each: a loop of short programs has a fresh group at every moment, and
// a program that cleans up after the first interrupt must not get a second.
type interrupter struct {
	sh        *shell
	last      int       // group that got the signal last
	ownSince  time.Time // since when the shell itself is in the foreground after a job
	ownSignal bool      // the shell itself got it
}

// interruptShell interrupts the shell itself, whatever is in the foreground. In a loop of short programs each group may be
// gone before its signal arrives, and the shell is never in the foreground for long.
func (by *interrupter) interruptShell() {
	if syscall.Kill(by.sh.pid, syscall.SIGINT) == nil {
		by.ownSignal = true
	}
}

func (by *interrupter) interrupt() {
	group := by.sh.foreground()
	if group <= 0 || group == by.last {
		return
	}
	if group != by.sh.pid {
		by.ownSince = time.Time{}
	} else if by.last != 0 {
		// The job is gone and the shell is most likely on its way back.
		if by.ownSince.IsZero() {
			by.ownSince = time.Now()
		}
		if time.Since(by.ownSince) < shellOwnTime {
			return
		}
	}
	if syscall.Kill(-group, syscall.SIGINT) == nil {
		by.last = group
		by.ownSignal = by.ownSignal || group == by.sh.pid
		syscall.Kill(-group, syscall.SIGCONT)
	}
}

// settle waits until a shell that was interrupted has dealt with every interrupt: one may meet it when it is already back,
// and what it prints then belongs to this command.
func (by *interrupter) settle(alive bool) bool {
	sh := by.sh
	if !alive || !by.ownSignal || sh.program != "bash" {
		return alive
	}
	for deadline := time.Now().Add(settleTime); time.Now().Before(deadline); {
		sh.mu.Lock()
		isDriven := sh.state == shellRunning
		if isDriven {
			sh.instruct(instructReport) // again and again: an interrupt may take the instruction with it
		}
		sh.mu.Unlock()
		if !isDriven {
			return alive
		}
		select {
		case <-sh.synced:
			return alive
		case <-sh.ended:
			return false
		case <-time.After(settleAgain):
		}
	}
	return alive
}
