package main

import (
	"syscall"
	"time"
)

const (
	shellOwnTime = 100 * time.Millisecond // for a shell to come back by itself once its job is gone
	settleTime   = 100 * time.Millisecond
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

// settle waits for the second report of a shell that may have been interrupted
// when it was already back: what it prints then is not the next command's.
func (by *interrupter) settle(alive bool, isDone func(time.Duration) (done, alive bool)) bool {
	if alive && by.ownSignal {
		isDone(settleTime)
	}
	return alive
}
