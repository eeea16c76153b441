package microvm

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"sandglass/runner/internal/launch/pidfd"
	"sandglass/runner/internal/launch/socket"
	"sandglass/runner/internal/rlimit"
	"sandglass/runner/internal/testns"
)

// A supervisor is a process: this program again.

func TestMain(m *testing.M) {
	for name, command := range map[string]func() error{"supervise": Supervise, "snapshot": Snapshot} {
		if len(os.Args) > 1 && os.Args[1] == name {
			if err := command(); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			os.Exit(0)
		}
	}
	os.Exit(m.Run())
}

type supervised struct {
	cmd    *exec.Cmd
	input  io.WriteCloser
	result vmResult
}

// supervise starts a supervisor and reads its result. A shell script takes the part of QEMU.

func supervise(t *testing.T, j *vmJob) *supervised {
	t.Helper()
	s := &supervised{cmd: exec.Command("/proc/self/exe", "supervise", "box")}
	s.cmd.Stderr = os.Stderr
	var err error
	if s.input, err = s.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	output, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.input.Close()
		s.cmd.Wait()
	})
	document, err := json.Marshal(map[string]any{
		"argv": j.Argv, "files": append([]file{}, j.Files...), "sockets": append([]string{}, j.Sockets...), "egress_socket": j.EgressSocket,
		"bridge": "", "share_socket": "", "log": j.Log,
		"log_bytes": j.LogBytes, "groups": []any{}, "rlimits": append([]rlimit.Limit{}, j.Rlimits...),
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.input.Write(append(document, '\n')); err != nil {
		t.Fatal(err)
	}
	if err := json.NewDecoder(output).Decode(&s.result); err != nil {
		t.Fatal(err)
	}
	return s
}

func script(log, text string) *vmJob {
	return &vmJob{Argv: []string{"/bin/sh", "-c", text}, Log: log, LogBytes: 1000}
}

func TestASupervisorWritesTheLogAndEndsWithItsMachine(t *testing.T) {
	dir := t.TempDir()
	files := []file{{testns.File(t, dir+"/kernel", "kernel"), false}, {testns.File(t, dir+"/disk", ""), true}}
	j := script(dir+"/boot.log", "cat <&3; echo written >&4; test -S /proc/self/fd/5 && test -S /proc/self/fd/6 && echo sockets; ulimit -c; env; exit 7")
	j.Files, j.Sockets, j.Rlimits = files, []string{dir + "/monitor"}, []rlimit.Limit{{Resource: syscall.RLIMIT_CORE, Limit: 0}}
	j.EgressSocket = &socket.Owned{Path: dir + "/egress", Owner: os.Getuid()}
	s := supervise(t, j)
	if !s.result.Ok || s.result.Qemu == nil || s.result.Supervisor == nil || s.result.Supervisor.Pid != s.cmd.Process.Pid {
		t.Fatalf("%+v", s.result)
	}
	fmt.Fprint(s.input, releaseLine)
	if err := s.cmd.Wait(); err != nil {
		t.Error(err)
	}
	log := testns.Content(t, j.Log)
	// SECURITY: the environment of the daemon may hold keys.
	if want := "kernelsockets\n0\nPWD=/\n\nQEMU ended with status 7\n"; log != want {
		t.Errorf("the log is %q, want %q", log, want)
	}
	if got := testns.Content(t, dir+"/disk"); got != "written\n" {
		t.Errorf("the disk holds %q", got)
	}
}

func TestAMachineEndsWithADaemonThatHasNotReleasedIt(t *testing.T) {
	for name, line := range map[string]string{"nothing": "", "half a line": "rele", "another line": "keep\n"} {
		dir := t.TempDir()
		s := supervise(t, script(dir+"/boot.log", "exec sleep 600"))
		if !s.result.Ok {
			t.Fatalf("%+v", s.result)
		}
		fmt.Fprint(s.input, line)
		s.input.Close()
		if err := s.cmd.Wait(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if log := testns.Content(t, dir+"/boot.log"); log != "\nQEMU was killed by signal 9\n" {
			t.Errorf("%s: the log is %q", name, log)
		}
	}
}

func TestAReleasedMachineOutlivesTheDaemon(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mkfifo(dir+"/go", 0o600); err != nil {
		t.Fatal(err)
	}
	s := supervise(t, script(dir+"/boot.log", "read line < "+dir+"/go; echo $line"))
	fmt.Fprint(s.input, releaseLine)
	s.input.Close()
	h, err := pidfd.Open(s.result.Qemu.Pid)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	if err := h.Wait(time.Now().Add(50 * time.Millisecond)); err == nil {
		t.Fatal("the machine ended with the daemon")
	}
	testns.File(t, dir+"/go", "on\n")
	if err := s.cmd.Wait(); err != nil {
		t.Error(err)
	}
	if log := testns.Content(t, dir+"/boot.log"); log != "on\n\nQEMU ended with status 0\n" {
		t.Errorf("the log is %q", log)
	}
}

func TestAMachineThatCannotStartIsAResultWithAnError(t *testing.T) {
	dir := t.TempDir()
	link := dir + "/link"
	if err := os.Symlink("/etc/passwd", link); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change func(j *vmJob)
		want   string
	}{
		"no program":     {func(j *vmJob) { j.Argv = []string{"/no/such/qemu"} }, "start QEMU"},
		"a missing file": {func(j *vmJob) { j.Files = []file{{dir + "/none", false}} }, "open " + dir + "/none"},
		"a link":         {func(j *vmJob) { j.Files = []file{{link, true}} }, "too many levels"},
		"no log":         {func(j *vmJob) { j.Log = dir + "/none/log" }, "open log"},
		"no socket":      {func(j *vmJob) { j.Sockets = []string{dir + "/none/s"} }, "listen on"},
		"no egress":      {func(j *vmJob) { j.EgressSocket = &socket.Owned{Path: dir + "/none/e"} }, "listen on"},
	} {
		j := script(dir+"/log", "true")
		c.change(j)
		if s := supervise(t, j); s.result.Ok || s.result.Qemu != nil || !strings.Contains(s.result.Error, c.want) {
			t.Errorf("%s: %+v", name, s.result)
		}
	}
}

func TestTheBootLogHasExactHalves(t *testing.T) {
	for total, want := range map[int]string{4: "abcd", 5: "abcde", 10: "abcdefghij", 11: "abcde\n[1 bytes left out]\nghijk", 26: "abcde\n[16 bytes left out]\nvwxyz"} {
		path := filepath.Join(t.TempDir(), "log")
		log, err := openBootLog(path, 5)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range []byte("abcdefghijklmnopqrstuvwxyz")[:total] {
			log.add([]byte{b})
		}
		log.close("end")
		if got := testns.Content(t, path); got != want+"\nend\n" {
			t.Errorf("%d bytes: %q, want %q", total, got, want)
		}
	}
}

// fakeMonitor answers QMP commands and writes to the descriptor that getfd brings, as QEMU does.
