package confine

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"sandglass/runner/internal/runnertest"
	"sandglass/runner/internal/wire"
)

func TestPID1GivesUpWhatItDoesNotNeed(t *testing.T) {
	s := runnertest.StartPID1(t, nil)
	c := s.Dial()
	for _, x := range []struct{ title, cmd, user, want string }{
		{"the user", "id -u; id -g; id -G", "sandbox", "1000\n1000\n1000\n"},
		{"no capabilities", "grep -hE 'Cap(Eff|Prm|Inh)' /proc/self/status | sort -u -k2 | wc -l; grep CapBnd /proc/self/status", "sandbox", "1\nCapBnd:\t00000000000004fb\n"},
		{"root has few", "id -u; grep -hE 'Cap(Eff|Bnd)' /proc/self/status", "root", "0\nCapEff:\t00000000000004fb\nCapBnd:\t00000000000004fb\n"},
		{"no new privileges", "grep NoNewPrivs /proc/self/status", "root", "NoNewPrivs:\t1\n"},
		{"every thread of the runner", "cat /proc/1/task/*/status | grep CapEff | sort | uniq -c | wc -l; grep CapEff /proc/1/status", "root", "1\nCapEff:\t00000000000004fb\n"},
		{"the runner's memory", "cat /proc/1/environ; cat /proc/1/maps", "sandbox", "*denied*denied*"},
		{"the runner's descriptors", "ls /proc/1/fd", "sandbox", "*denied*"},
		{"no mounts, no raw devices", "mount -t tmpfs x /mnt; mknod d b 8 0", "root", "*denied*not permitted*"},
		{"loopback", "ip -4 -o addr show lo 2>/dev/null | grep -c 'inet 127' || cat /proc/net/fib_trie | grep -c 127.0.0.53", "sandbox", "2\n"},
		{"the terminal is the user's", "echo by name > $(tty <&2)", "sandbox", "by name\n"},
	} {
		name := "as-" + x.user
		c.Call("shell.create", wire.Fields{"name": name, "user": x.user})
		if got := c.Exec(x.cmd, wire.Fields{"shell": name}); !runnertest.Matches(x.want, got.Out) {
			t.Errorf("%s: got %q, want %q", x.title, got.Out, x.want)
		}
	}
}

func TestAFilterOfTheConfigurationHoldsForAll(t *testing.T) {
	// Load the number of the call; getpriority, 140 on x64 and 141 on arm64, fails with errno 95; other calls are allowed.
	filter := []byte{
		0x20, 0, 0, 0, 0, 0, 0, 0,
		0x15, 0, 1, 0, 140, 0, 0, 0,
		0x15, 0, 0, 1, 141, 0, 0, 0,
		0x06, 0, 0, 0, 95, 0, 5, 0,
		0x06, 0, 0, 0, 0, 0, 0xff, 0x7f,
	}
	c := runnertest.StartPID1(t, wire.Fields{"seccomp": filter}).Dial()
	for cmd, want := range map[string]string{
		"grep -h Seccomp: /proc/1/task/*/status /proc/self/status | sort -u": "Seccomp:\t2\n",
		"python3 -c 'import os; os.getpriority(0, 0)'":                       "*Errno 95*",
	} {
		if got := c.Exec(cmd).Out; !runnertest.Matches(want, got) {
			t.Errorf("%s: got %q, want %q", cmd, got, want)
		}
	}
}

func TestAStepThatCannotBeDoneIsFatal(t *testing.T) {
	runnertest.NeedsRoot(t)
	dir, err := os.MkdirTemp("", "rt")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	config := `{"token":"` + runnertest.Token + `","workdir":"/tmp","home":"/tmp","loopback":["127.0.0.54/8"]}`
	if err := os.WriteFile(dir+"/config", []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	binary, err := os.ReadFile(runnertest.Binary)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir+"/runner", binary, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(dir+"/runner", "--listen", dir+"/sock", "--config-file", dir+"/config")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, _ := cmd.CombinedOutput()
	if cmd.ProcessState.ExitCode() != 1 || !strings.Contains(string(out), "add 127.0.0.54/8 to loopback") {
		t.Errorf("exit %d: %s", cmd.ProcessState.ExitCode(), out)
	}
}
