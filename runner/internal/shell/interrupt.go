package shell

import (
	"syscall"
	"time"

	"sandglass/runner/internal/procfs"
)

const (
	settleTime  = 2 * time.Second // for an interrupted shell to report that it waits for an instruction
	settleAgain = 50 * time.Millisecond
)

// An interrupter sends SIGINT to the foreground process groups of a shell's terminal, once to each: a loop of short
// programs has a new group every time, and a program that cleans up after the first interrupt must not get a second
// one. A group whose leader executes another program afterwards gets the signal again: a shell sets up the group of a
// program before it executes it, and the copy of the shell that is there until then may discard the signal.
//
// The shell gets the signal first: a shell that is not interrupted itself continues with the command line when its
// program ends in another way than by SIGINT. bash acts on the signal when its program has ended.
type interrupter struct {
	sh      *Shell
	last    int    // group that was signalled last
	program string // name of the program of its leader then
}

func (i *interrupter) interrupt() {
	sh := i.sh
	if i.last == 0 {
		syscall.Kill(sh.pid, syscall.SIGINT)
		i.last = sh.pid
	}
	group := sh.foreground()
	if group <= 0 || group == sh.pid {
		return
	}
	leader, isThere := procfs.Read(group)
	if group == i.last && (!isThere || leader.Name == i.program) {
		return
	}
	if syscall.Kill(-group, syscall.SIGINT) == nil {
		i.last, i.program = group, leader.Name
		syscall.Kill(-group, syscall.SIGCONT)
	}
}

// settle waits until an interrupted shell has handled every interrupt. An interrupt may arrive when the shell is
// already back at its driver, and what the shell prints then belongs to this command. bash handles interrupts between
// two commands, so two reports are enough.
func (i *interrupter) settle(alive bool) bool {
	if !alive || i.sh.program != "bash" {
		return alive
	}
	deadline := time.Now().Add(settleTime)
	return i.sh.sync(deadline) && i.sh.sync(deadline)
}

// sync requests a report from the driver and waits for it. It returns false when the shell has ended.
func (sh *Shell) sync(deadline time.Time) bool {
	select {
	case <-sh.synced: // the answer to an earlier request
	default:
	}
	for time.Now().Before(deadline) {
		sh.mu.Lock()
		isDriven := sh.state == stateRunning
		if isDriven {
			sh.instruct(instructReport) // repeated, because an interrupt may discard the instruction
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

// foreground is the foreground process group of the terminal. Where the kernel does not report it, it is the youngest
// group that the shell has started since its last instruction, or the shell's own.
func (sh *Shell) foreground() int {
	group, isKnown := sh.term.ForegroundGroup()
	if isKnown {
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
