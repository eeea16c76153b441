package main

import (
	"os"
	"os/signal"
	"syscall"
	"time"
)

const (
	signalGrace = 2 * time.Second
	replyTime   = 20 * time.Millisecond // for the reply to reach the client before its connection goes
	maxGrace    = 10 * time.Minute
)

func answerShutdown(run *runner, q *request) (fields, []byte, error) {
	var call struct {
		GraceMS int64 `json:"grace_ms"`
	}
	if err := q.decode(&call); err != nil {
		return nil, nil, err
	}
	grace := time.Duration(call.GraceMS) * time.Millisecond
	if call.GraceMS < 0 || grace > maxGrace {
		return nil, nil, invalid("grace_ms must be 0 to %d", maxGrace.Milliseconds())
	}
	time.AfterFunc(replyTime, func() { run.shutdown(grace) })
	return fields{"ok": true}, nil, nil
}

// shutdown ends everything in the sandbox and then the runner.
func (run *runner) shutdown(grace time.Duration) {
	if !run.isStopping.CompareAndSwap(false, true) {
		return
	}
	for _, sh := range run.listShells() {
		syscall.Kill(sh.pid, syscall.SIGHUP) // an interactive shell ignores SIGTERM
	}
	deadline := time.Now().Add(grace)
	for _, p := range everyone() {
		syscall.Kill(p.pid, syscall.SIGTERM)
		syscall.Kill(p.pid, syscall.SIGCONT)
	}
	for wait := time.Millisecond; time.Now().Before(deadline) && len(everyone()) > 0; wait *= 2 {
		if left := time.Until(deadline); wait > left {
			wait = left
		}
		time.Sleep(wait)
	}
	for left := everyone(); len(left) > 0; left = everyone() {
		killAll(left)
		time.Sleep(time.Millisecond)
	}
	run.exit()
}

// everyone is every process that the runner answers for: as PID 1 all of them,
// otherwise its descendants.
func everyone() []procStat {
	self := os.Getpid()
	all := allProcesses()
	ours := map[int]bool{self: true}
	var list []procStat
	for grew := true; grew; {
		grew = false
		for _, p := range all {
			if ours[p.pid] || p.state == 'Z' || !(self == 1 || ours[p.parent]) {
				continue
			}
			ours[p.pid], grew = true, true
			list = append(list, p)
		}
	}
	return list
}

// handleSignals makes SIGTERM and SIGINT end the sandbox in order.
func (run *runner) handleSignals() {
	stops := make(chan os.Signal, 1)
	signal.Notify(stops, syscall.SIGTERM, syscall.SIGINT)
	// A hangup or a closed stderr must not end PID 1. They are caught rather than ignored: children would inherit the latter.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP, syscall.SIGPIPE)
	<-stops
	run.shutdown(signalGrace)
}
