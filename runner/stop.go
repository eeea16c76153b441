package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	interruptGrace = time.Second // between SIGINT and SIGKILL
	returnGrace    = time.Second // for the shell itself after SIGKILL
	stopPolling    = 15 * time.Millisecond
	maxBlankLines  = 2 // that a shell prints when it is interrupted
)

// stopCommand ends the command that runs. It gives the shell's last report when the shell lives on, and how many empty
// lines the shell printed: bash prints one whenever an interrupt brings it back to its prompt.
func (sh *shell) stopCommand(sinceTicks int64) (last report, blankLines int, alive bool) {
	alive = sh.stop(sinceTicks, func(d time.Duration) (done, alive bool) {
		r, done, alive := sh.reportWithin(d)
		if done && alive {
			last = r
		}
		return done, alive
	})
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if blankLines = sh.anew; blankLines > maxBlankLines {
		blankLines = maxBlankLines
	}
	return last, blankLines, alive
}

// stop ends the command: SIGINT, then SIGKILL for the foreground job. It is true when the shell lives on. isDone waits for the
// command to be over.
//
// A shell that has a program killed and then starts another one goes on with the rest of the command line, because it ignores
// the interrupt or has a trap for it. It is killed: what was ended must not go on.
func (sh *shell) stop(sinceTicks int64, isDone func(time.Duration) (done, alive bool)) bool {
	victims := sh.foregroundJob(sinceTicks)
	by := &interrupter{sh: sh}
	for deadline := time.Now().Add(interruptGrace); time.Now().Before(deadline); {
		by.interrupt()
		if done, alive := isDone(stopPolling); done {
			killAll(victims) // the interrupt ended the job, but not those of its processes that ignore it
			return by.settle(alive)
		}
	}
	victims = append(sh.foregroundJob(sinceTicks), victims...)
	killedAt := bootTicks()
	if !sh.ignoresInterrupts() {
		for deadline := time.Now().Add(returnGrace); time.Now().Before(deadline) && !startedSince(sh.foregroundJob(sinceTicks), killedAt); {
			syscall.Kill(sh.pid, syscall.SIGINT)
			syscall.Kill(sh.pid, syscall.SIGCONT)
			killAll(victims)
			if done, alive := isDone(stopPolling); done {
				return by.settle(alive)
			}
		}
	}
	sh.kill()
	killAll(victims)
	<-sh.ended
	return false
}

func startedSince(list []procStat, ticks int64) bool {
	for _, p := range list {
		if p.started > ticks {
			return true
		}
	}
	return false
}

// ignoresInterrupts tells whether SIGINT does nothing to the shell: trap ” INT.
func (sh *shell) ignoresInterrupts() bool {
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
func (sh *shell) reportWithin(d time.Duration) (r report, done, alive bool) {
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

// interruptShell ends what runs in a shell and answers when it is over.
func interruptShell(run *runner, q *request) (fields, []byte, error) {
	var spec shellSpec
	if err := q.decode(&spec); err != nil {
		return nil, nil, err
	}
	sh := run.findShell(spec.Name)
	if sh == nil {
		if spec.Name == defaultShell {
			return fields{"interrupted": false}, nil, nil // it is made when somebody needs it
		}
		return nil, nil, noShell(spec.Name)
	}
	return fields{"interrupted": sh.interrupt()}, nil, nil
}

// interrupt is true when something ran.
func (sh *shell) interrupt() bool {
	sh.mu.Lock()
	current, state := sh.current, sh.state
	sh.mu.Unlock()
	switch {
	case current != nil:
		current.stop(interrupted)
		<-current.ended
		return true
	case state == shellPrompt && !sh.isAtPrompt():
		sh.stop(sh.since.Load(), func(d time.Duration) (done, alive bool) {
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
func (sh *shell) isAtPrompt() bool { return sh.foreground() == sh.pid && !sh.term.readsLines() }
