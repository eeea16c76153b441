package oci

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"sandglass/runner/internal/launch/socket"
	"sandglass/runner/internal/launch/userns"
	"sandglass/runner/internal/testns"
)

func TestVerifyRefusesLessIsolation(t *testing.T) {
	testns.Root(t)
	plain := started(t, exec.Command("sleep", "600")).Process.Pid
	if err := checkApart(plain, "net"); err == nil || !strings.Contains(err.Error(), "no net namespace") {
		t.Errorf("a process in the host's network: %v", err)
	}
	unshared := exec.Command("sleep", "600")
	unshared.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS}
	pid := started(t, unshared).Process.Pid
	if err := checkApart(pid, "net", "uts"); err != nil {
		t.Error(err)
	}
	if err := checkApart(pid, "net", "uts", "ipc"); err == nil || !strings.Contains(err.Error(), "no ipc namespace") {
		t.Errorf("a process in the host's ipc: %v", err)
	}
	if err := checkFilter(plain); err == nil || !strings.Contains(err.Error(), "no seccomp filter") {
		t.Errorf("a process without a filter: %v", err)
	}
	if err := checkFilter(4_194_303); err == nil || !strings.Contains(err.Error(), "ended at once") {
		t.Errorf("no process: %v", err)
	}
}

func TestVerifyComparesTheIDsOfTheUserNamespace(t *testing.T) {
	testns.Root(t)
	cmd := exec.Command("sleep", "600")
	maps := []syscall.SysProcIDMap{{ContainerID: 0, HostID: 300_000, Size: 10}}
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER, UidMappings: maps, GidMappings: maps}
	pid := started(t, cmd).Process.Pid
	if err := checkIDs(pid, []userns.Range{{Inside: 0, Outside: 300_000, Size: 10}}); err != nil {
		t.Error(err)
	}
	for _, ids := range [][]userns.Range{nil, {{Inside: 0, Outside: 300_000, Size: 11}}, {{Inside: 0, Outside: 0, Size: 10}}} {
		if err := checkIDs(pid, ids); err == nil {
			t.Errorf("the ids %v were accepted", ids)
		}
	}
	own, err := os.Open("/proc/self/ns/user")
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	if err := checkUsers(pid, own); err == nil {
		t.Error("another user namespace was accepted")
	}
	if err := checkUsers(os.Getpid(), own); err != nil {
		t.Error(err)
	}
}

func TestVerifyFindsTheListeningSocketUnderAnyNumber(t *testing.T) {
	listener, err := socket.New()
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	with := exec.Command("sleep", "600")
	with.ExtraFiles = []*os.File{nil, listener}
	if err := checkInherited(started(t, with).Process.Pid, listener); err != nil {
		t.Error(err)
	}
	if err := checkInherited(started(t, exec.Command("sleep", "600")).Process.Pid, listener); err == nil {
		t.Error("a process without the socket was accepted")
	}
}
