package rlimit

import (
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

func TestALimitOfAnotherProcessIsSet(t *testing.T) {
	cmd := exec.Command("cat")
	input, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer input.Close()
	if err := SetProcess(cmd.Process.Pid, Limit{syscall.RLIMIT_NOFILE, 77}); err != nil {
		t.Fatal(err)
	}
	limits, err := os.ReadFile("/proc/" + strconv.Itoa(cmd.Process.Pid) + "/limits")
	if err != nil || !strings.Contains(strings.Join(strings.Fields(string(limits)), " "), "Max open files 77 77") {
		t.Errorf("%v: %s", err, limits)
	}
	if err := SetProcess(4_194_303, Limit{syscall.RLIMIT_NOFILE, 77}); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("a process that does not exist: %v", err)
	}
}

func TestALimitOfThisProcessIsSet(t *testing.T) {
	if err := Set([]Limit{{syscall.RLIMIT_CORE, 0}}); err != nil {
		t.Fatal(err)
	}
	got := syscall.Rlimit{}
	if err := syscall.Getrlimit(syscall.RLIMIT_CORE, &got); err != nil || got.Cur != 0 || got.Max != 0 {
		t.Errorf("%+v, %v", got, err)
	}
	if err := Set([]Limit{{9999, 1}}); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("a resource that does not exist: %v", err)
	}
}
