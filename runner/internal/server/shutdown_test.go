package server

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"sandglass/runner/internal/procfs"
	"sandglass/runner/internal/runnertest"
	"sandglass/runner/internal/wire"
)

func TestShutdownEndsEverything(t *testing.T) {
	for _, by := range []string{"request", "signal"} {
		by := by
		t.Run("by "+by, func(t *testing.T) {
			t.Parallel()
			s := runnertest.Start(t, nil)
			c := s.Dial()
			stubborn := c.Start(wire.Fields{"argv": runnertest.Sh("trap '' TERM; while :; do sleep 0.1; done")})
			c.Exec("sleep 61 & (setsid sleep 62 &)")
			started := time.Now()
			if by == "request" {
				if f, _ := c.Call("shutdown", wire.Fields{"grace_ms": 200}); f["ok"] != true {
					t.Errorf("got %v", f)
				}
			} else {
				s.Cmd.Process.Signal(syscall.SIGTERM)
			}
			if err := s.Cmd.Wait(); err != nil {
				t.Errorf("the runner ended with %v", err)
			}
			if took := time.Since(started); took > 8*time.Second {
				t.Errorf("took %v", took)
			}
			if stat, ok := procfs.Read(stubborn); ok && stat.State != 'Z' {
				t.Error("a process is left behind")
			}
		})
	}
}

func TestOrphansAreReaped(t *testing.T) {
	s := runnertest.Start(t, nil)
	c := s.Dial()
	pid := strings.TrimSpace(c.Exec("sh -c 'sh -c \"sleep 0.05\" & echo $!'").Out)
	runnertest.Eventually(t, "the orphan is gone", func() bool {
		var n int
		fmt.Sscan(pid, &n)
		_, ok := procfs.Read(n)
		return !ok
	})
}
