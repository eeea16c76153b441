package server

import (
	"encoding/json"
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
			if took := time.Since(started); took > runnertest.Patience {
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

func TestPID1ReapsOrphansAndKnowsPorts(t *testing.T) {
	s := runnertest.StartPID1(t, nil)
	c := s.Dial()
	c.Exec("for i in 1 2 3 4 5; do (setsid sh -c 'sleep 0.01' &); done")
	runnertest.Eventually(t, "no zombie is left", func() bool { return c.Exec("grep -l '^State:.Z' /proc/[0-9]*/status").Code != 0 })
	c.Exec("python3 -m http.server 8123 --bind 127.0.0.53 >/dev/null 2>&1 &")
	var ports string
	runnertest.Eventually(t, "the server listens", func() bool {
		f, _ := c.Call("ports", nil)
		data, _ := json.Marshal(f["ports"])
		ports = string(data)
		return len(f["ports"].([]any)) == 1
	})
	if !strings.Contains(ports, `"address":"127.0.0.53","command":"python3","pid":`) {
		t.Errorf("ports: %s", ports)
	}
}

func TestPID1EndsOnSIGTERMWithEverything(t *testing.T) {
	s := runnertest.StartPID1(t, nil)
	c := s.Dial()
	c.Start(wire.Fields{"argv": runnertest.Sh("trap '' TERM HUP; while :; do sleep 0.1; done")})
	if f, _ := c.Call("shutdown", wire.Fields{"grace_ms": 100}); f["ok"] != true {
		t.Errorf("got %v", f)
	}
	if err := s.Cmd.Wait(); err != nil {
		t.Errorf("ended with %v: %s", err, s.Stderr)
	}
}
