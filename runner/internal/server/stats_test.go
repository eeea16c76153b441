package server

import (
	"testing"

	"sandglass/runner/internal/runnertest"
	"sandglass/runner/internal/wire"
)

func TestStats(t *testing.T) {
	c := runnertest.Start(t, nil).Dial()
	c.Exec("cd /usr")
	c.Start(wire.Fields{"argv": []string{"sleep", "60"}})
	f, _ := c.Call("stats", nil)
	if f["detached"] != 0.0 || f["since_detached_ms"] != nil {
		t.Errorf("no process is detached: %v", f)
	}
	pid := c.Start(wire.Fields{"argv": []string{"sleep", "60"}, "detach": true})
	if f, _ := c.Call("stats", nil); f["processes"] != 2.0 || f["detached"] != 1.0 || f["since_detached_ms"] != nil {
		t.Errorf("one process is detached: %v", f)
	}
	c.Call("process.signal", wire.Fields{"pid": pid, "signal": "KILL"})
	runnertest.Eventually(t, "the end of the detached process is counted", func() bool {
		f, _ = c.Call("stats", nil)
		return f["since_detached_ms"] != nil
	})
	if f["shells"] != 1.0 || f["processes"] != 1.0 || f["cwd"] != "/usr" || f["disk_limit_bytes"].(float64) <= 0 || f["uptime_ms"] == nil {
		t.Errorf("got %v", f)
	}
}
