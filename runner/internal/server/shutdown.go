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
	replyTime   = 20 * time.Millisecond // for the reply to reach the client
	maxGrace    = 10 * time.Minute
)

func (srv *Server) answerShutdown(q *wire.Request) (wire.Fields, []byte, error) {
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
	time.AfterFunc(replyTime, func() { srv.shutdown(grace) })
	return wire.Fields{"ok": true}, nil, nil
}

// shutdown ends all processes of the sandbox and then the runner.
func (srv *Server) shutdown(grace time.Duration) {
	if !srv.isStopping.CompareAndSwap(false, true) {
		return
	}
	srv.shells.HangUp()
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
	srv.exit()
}

// HandleSignals shuts the sandbox down on SIGTERM or SIGINT.
func (srv *Server) HandleSignals() {
	stops := make(chan os.Signal, 1)
	signal.Notify(stops, syscall.SIGTERM, syscall.SIGINT)
	// SIGHUP and SIGPIPE must not end PID 1. They are caught and not ignored, because children would inherit an
	// ignored signal.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP, syscall.SIGPIPE)
	<-stops
	srv.shutdown(signalGrace)
}
