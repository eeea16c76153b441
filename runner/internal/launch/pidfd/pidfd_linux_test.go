package pidfd

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

func sleeper(t *testing.T) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("sleep", "600")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	return cmd
}

func TestAProcessIsFoundByItsIdentityAndKilled(t *testing.T) {
	cmd := sleeper(t)
	id, err := Identify(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	h, err := id.Open()
	if err != nil || h == nil {
		t.Fatalf("not found: %v", err)
	}
	defer h.Close()
	if err := h.Wait(time.Now().Add(10 * time.Millisecond)); err == nil {
		t.Error("it ended by itself")
	}
	if err := h.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := h.Wait(time.Now().Add(10 * time.Second)); err != nil {
		t.Error(err)
	}
	cmd.Wait()
	if err := h.Kill(); err != nil {
		t.Errorf("killing what has ended: %v", err)
	}
	if gone, err := id.Open(); err != nil || gone != nil {
		t.Errorf("found after its end: %v, %v", gone, err)
	}
	if IsAlive(cmd.Process.Pid) {
		t.Error("it is alive after its end")
	}
}

// SECURITY: a pid is given to other processes, which must not be killed.
func TestAnIdentityOfAnotherTimeFindsNothing(t *testing.T) {
	own, err := Identify(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(id *Identity){
		"another start": func(id *Identity) { id.StartTime++ },
		"another boot":  func(id *Identity) { id.BootID = "other" },
		"init":          func(id *Identity) { id.Pid = 1 },
		"no process":    func(id *Identity) { id.Pid = 4_194_303 },
		"a group":       func(id *Identity) { id.Pid = -os.Getpid() },
	} {
		id := *own
		change(&id)
		if h, err := id.Open(); err != nil || h != nil {
			t.Errorf("%s: %v, %v", name, h, err)
		}
	}
	if h, err := own.Open(); err != nil || h == nil {
		t.Errorf("this process itself: %v, %v", h, err)
	}
}

func TestTheStartTimeIsReadAfterAnyCommandName(t *testing.T) {
	if err := os.WriteFile("/proc/self/comm", []byte("a) R 1 (b"), 0); err != nil {
		t.Skipf("cannot rename this process: %v", err)
	}
	ticks, err := startTime(os.Getpid())
	if err != nil || ticks == 0 {
		t.Errorf("%d, %v", ticks, err)
	}
	if _, err := Identify(4_194_303); err == nil || !strings.Contains(err.Error(), "ended at once") {
		t.Errorf("no process: %v", err)
	}
}
