package shell

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"sandglass/runner/internal/procfs"
	"sandglass/runner/internal/wire"
)

const (
	interruptGrace = time.Second // between SIGINT and SIGKILL
	returnGrace    = time.Second // for the shell itself after SIGKILL
	stopPolling    = 15 * time.Millisecond
	maxBlankLines  = 2 // that a shell prints when it is interrupted
)

// stopCommand ends the running command. If the shell survives, it returns the last report and the number of empty
// lines that the shell printed: bash prints one whenever an interrupt returns it to its prompt.
func (sh *Shell) stopCommand(sinceTicks int64) (last report, blankLines int, alive bool) {
	alive = sh.stop(sinceTicks, func(d time.Duration) (done, alive bool) {
		r, done, alive := sh.reportWithin(d)
		if done && alive {
			last = r
		}
		return done, alive
	})
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if blankLines = sh.interruptReports; blankLines > maxBlankLines {
		blankLines = maxBlankLines
	}
	return last, blankLines, alive
}

// stop ends the command: SIGINT, then SIGKILL to the foreground job. isDone waits for the end of the command. stop
// returns true when the shell survives.
//
// A shell that ignores the interrupt, or has a trap for it, continues with the command line: after its program was
// killed, it starts another one. Such a shell is killed, because the command must not continue.
func (sh *Shell) stop(sinceTicks int64, isDone func(time.Duration) (done, alive bool)) bool {
	victims := sh.foregroundJob(sinceTicks)
	signals := &interrupter{sh: sh}
	for deadline := time.Now().Add(interruptGrace); time.Now().Before(deadline); {
		signals.interrupt()
		if done, alive := isDone(stopPolling); done {
			procfs.Kill(victims) // processes of the job that ignore the interrupt
			return signals.settle(alive)
		}
	}
	victims = append(sh.foregroundJob(sinceTicks), victims...)
	killedAt := procfs.BootTicks()
	if !sh.ignoresInterrupts() {
		for deadline := time.Now().Add(returnGrace); time.Now().Before(deadline) && !startedSince(sh.foregroundJob(sinceTicks), killedAt); {
			syscall.Kill(sh.pid, syscall.SIGINT)
			syscall.Kill(sh.pid, syscall.SIGCONT)
			procfs.Kill(victims)
			if done, alive := isDone(stopPolling); done {
				return signals.settle(alive)
			}
		}
	}
	sh.kill()
	procfs.Kill(victims)
	<-sh.ended
	return false
}

func startedSince(list []procfs.Process, ticks int64) bool {
	for _, p := range list {
		if p.Started > ticks {
			return true
		}
	}
	return false
}

// ignoresInterrupts tells whether the shell ignores SIGINT (trap "" INT).
func (sh *Shell) ignoresInterrupts() bool {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", sh.pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(status), "SigIgn:")
	mask, _, _ := strings.Cut(strings.TrimSpace(rest), "\n")
	ignored, err := strconv.ParseUint(mask, 16, 64)
	return err == nil && ignored&(1<<(syscall.SIGINT-1)) != 0
}

// reportWithin waits for a report or the end of the shell.
func (sh *Shell) reportWithin(d time.Duration) (r report, done, alive bool) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case r := <-sh.reports:
		return r, true, true
	case <-sh.ended:
		return report{}, true, false
	case <-timer.C:
		return report{}, false, true
	}
}

// foregroundJob returns the processes of the running command: the foreground process group of the terminal and all
// its descendants in the session. The shell itself and background jobs of earlier commands are excluded.
func (sh *Shell) foregroundJob(sinceTicks int64) []procfs.Process {
	group := sh.foreground()
	all := procfs.InSession(sh.pid)
	chosen := map[int]bool{}
	var job []procfs.Process
	for grew := true; grew; {
		grew = false
		for _, p := range all {
			if p.PID == sh.pid || chosen[p.PID] {
				continue
			}
			isRoot := p.Group == group && (group != sh.pid || p.Started >= sinceTicks)
			if isRoot || chosen[p.Parent] {
				chosen[p.PID], grew = true, true
				job = append(job, p)
			}
		}
	}
	return job
}

// answerInterrupt ends what runs in a shell and answers when it is over.
func (ss *Shells) answerInterrupt(q *wire.Request) (wire.Fields, []byte, error) {
	var spec spec
	if err := q.Decode(&spec); err != nil {
		return nil, nil, err
	}
	sh := ss.find(spec.Name)
	if sh == nil {
		if spec.Name == defaultShell {
			return wire.Fields{"interrupted": false}, nil, nil // the shell main is started on first use
		}
		return nil, nil, noShell(spec.Name)
	}
	return wire.Fields{"interrupted": sh.interrupt()}, nil, nil
}

// interrupt ends what runs in the shell. It returns false when nothing ran.
func (sh *Shell) interrupt() bool {
	sh.mu.Lock()
	current, state := sh.current, sh.state
	sh.mu.Unlock()
	switch {
	case current != nil:
		current.stop(interrupted)
		<-current.ended
		return true
	case state == stateAtPrompt && !sh.isAtPrompt():
		sh.stop(sh.instructedAt.Load(), func(d time.Duration) (done, alive bool) {
			select {
			case <-sh.ended:
				return true, false
			case <-time.After(d):
				return sh.isAtPrompt(), true
			}
		})
		return true
	}
	return false
}

// isAtPrompt tells whether the line editor of the shell waits for keys.
func (sh *Shell) isAtPrompt() bool { return sh.foreground() == sh.pid && !sh.term.ReadsLines() }
