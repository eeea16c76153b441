package server

import (
	"os"
	"os/signal"
	"syscall"
	"time"

	"sandglass/runner/internal/procfs"
	"sandglass/runner/internal/wire"
)

const (
	signalGrace = 2 * time.Second
	replyTime   = 20 * time.Millisecond // for the reply to reach the client before its connection goes
	maxGrace    = 10 * time.Minute
)

func (run *Server) answerShutdown(q *wire.Request) (wire.Fields, []byte, error) {
	var call struct {
		GraceMS int64 `json:"grace_ms"`
	}
	if err := q.Decode(&call); err != nil {
		return nil, nil, err
	}
	grace := time.Duration(call.GraceMS) * time.Millisecond
	if call.GraceMS < 0 || grace > maxGrace {
		return nil, nil, wire.Invalid("grace_ms must be 0 to %d", maxGrace.Milliseconds())
	}
	time.AfterFunc(replyTime, func() { run.shutdown(grace) })
	return wire.Fields{"ok": true}, nil, nil
}

// shutdown ends everything in the sandbox and then the runner.
func (run *Server) shutdown(grace time.Duration) {
	if !run.isStopping.CompareAndSwap(false, true) {
		return
	}
	run.shells.HangUp()
	deadline := time.Now().Add(grace)
	for _, p := range procfs.SandboxProcesses() {
		syscall.Kill(p.PID, syscall.SIGTERM)
		syscall.Kill(p.PID, syscall.SIGCONT)
	}
	for wait := time.Millisecond; time.Now().Before(deadline) && len(procfs.SandboxProcesses()) > 0; wait *= 2 {
		if left := time.Until(deadline); wait > left {
			wait = left
		}
		time.Sleep(wait)
	}
	for left := procfs.SandboxProcesses(); len(left) > 0; left = procfs.SandboxProcesses() {
		procfs.Kill(left)
		time.Sleep(time.Millisecond)
	}
	run.exit()
}

// HandleSignals makes SIGTERM and SIGINT end the sandbox in order.
func (run *Server) HandleSignals() {
	stops := make(chan os.Signal, 1)
	signal.Notify(stops, syscall.SIGTERM, syscall.SIGINT)
	// A hangup or a closed stderr must not end PID 1. They are caught rather than ignored: children would inherit the latter.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP, syscall.SIGPIPE)
	<-stops
	run.shutdown(signalGrace)
}
