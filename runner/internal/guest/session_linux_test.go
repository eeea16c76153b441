package guest

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

func TestTheReasonOfAnExit(t *testing.T) {
	const killed, exited = syscall.WaitStatus(9), syscall.WaitStatus(3 << 8)
	for _, c := range []struct {
		status      syscall.WaitStatus
		isRequested bool
		oomKills    int64
		want        exitReason
	}{
		{killed, false, 0, exitReason{exitSignal, "signal 9 ended the runner"}},
		{killed, false, 2, exitReason{exitOutOfMemory, "the session ran out of memory: the kernel killed the runner"}},
		{killed, true, 2, exitReason{exitRequested, "the daemon ended the session"}},
		{exited, false, 0, exitReason{exitStatus, "the runner exited with status 3"}},
		// A process of the sandbox was killed for want of memory earlier, but the runner exited by itself.
		{exited, false, 5, exitReason{exitStatus, "the runner exited with status 3"}},
	} {
		if got := reasonOf(c.status, c.isRequested, c.oomKills); *got != c.want {
			t.Errorf("%v: %+v, want %+v", c.status, got, c.want)
		}
	}
}

func TestWaitReturnsTheReasonOfTheRunner(t *testing.T) {
	pid, err := syscall.ForkExec("/bin/sh", []string{"sh", "-c", "exit 5"}, &syscall.ProcAttr{})
	if err != nil {
		t.Fatal(err)
	}
	s := &session{pid: pid}
	if got, err := s.wait(); err != nil || got.Reason != exitStatus || got.Text != "the runner exited with status 5" {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestABadSeccompFilterIsRefused(t *testing.T) {
	if os.Getenv("TEST_FILTER") == "" {
		// It sets no-new-privileges for good, so it is done in another process.
		cmd := exec.Command("/proc/self/exe", "-test.run=TestABadSeccompFilterIsRefused")
		cmd.Env = append(os.Environ(), "TEST_FILTER=1")
		if output, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, output)
		}
		return
	}
	for _, program := range [][]byte{nil, make([]byte, 7), make([]byte, 8*(maxBPFInstruction+1))} {
		if err := filter(program); err == nil || !strings.Contains(err.Error(), "invalid length") {
			t.Errorf("%d bytes: %v", len(program), err)
		}
	}
	if status, err := os.ReadFile("/proc/self/status"); err != nil || !strings.Contains(string(status), "NoNewPrivs:\t1") {
		t.Errorf("no-new-privileges is not set: %v", err)
	}
}
