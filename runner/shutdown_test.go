package main

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestShutdownEndsEverything(t *testing.T) {
	for _, by := range []string{"request", "signal"} {
		by := by
		t.Run("by "+by, func(t *testing.T) {
			t.Parallel()
			s := startRunner(t, nil)
			c := s.dial()
			stubborn := c.start(fields{"argv": sh("trap '' TERM; while :; do sleep 0.1; done")})
			c.exec("sleep 61 & (setsid sleep 62 &)")
			started := time.Now()
			if by == "request" {
				if f, _ := c.call("shutdown", fields{"grace_ms": 200}); f["ok"] != true {
					t.Errorf("got %v", f)
				}
			} else {
				s.cmd.Process.Signal(syscall.SIGTERM)
			}
			if err := s.cmd.Wait(); err != nil {
				t.Errorf("the runner ended with %v", err)
			}
			if took := time.Since(started); took > 8*time.Second {
				t.Errorf("took %v", took)
			}
			if stat, ok := readStat(stubborn); ok && stat.state != 'Z' {
				t.Error("a process is left behind")
			}
		})
	}
}

func TestOrphansAreReaped(t *testing.T) {
	s := startRunner(t, nil)
	c := s.dial()
	pid := strings.TrimSpace(c.exec("sh -c 'sh -c \"sleep 0.05\" & echo $!'").out)
	eventually(t, "the orphan is gone", func() bool {
		var n int
		fmt.Sscan(pid, &n)
		_, ok := readStat(n)
		return !ok
	})
}
