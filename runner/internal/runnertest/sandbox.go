// Package runnertest starts real runners for the tests of the other packages and talks to them.
package runnertest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sandglass/runner/internal/wire"
)

const (
	Token    = "a token for tests only"
	Patience = 20 * time.Second // longest wait for an event that must happen
)

var Binary string

// Main builds the runner as it ships, runs the tests of a package, and exits. The tests talk to it over its socket.
func Main(m *testing.M) {
	dir, err := os.MkdirTemp("", "runner-test")
	if err != nil {
		panic(err)
	}
	Binary = filepath.Join(dir, "runner")
	build := exec.Command("go", "build", "-o", Binary, "sandglass/runner/cmd/runner")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build runner: %v\n%s", err, out)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// A Sandbox is a running runner.
type Sandbox struct {
	T      *testing.T
	Dir    string
	Socket string
	Cmd    *exec.Cmd
	Stderr *bytes.Buffer

	EgressSocket string // only of StartPID1
}

// Start starts a runner whose workdir and home are a new folder.
func Start(t *testing.T, overrides wire.Fields) *Sandbox {
	t.Helper()
	dir, err := os.MkdirTemp("", "rt")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	s := &Sandbox{T: t, Dir: dir, Socket: dir + "/sock", Stderr: &bytes.Buffer{}}
	cfg := wire.Fields{"token": Token, "workdir": dir, "home": dir}
	for k, v := range overrides {
		cfg[k] = v
	}
	data, err := json.Marshal(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir+"/config", data, 0o600); err != nil {
		t.Fatal(err)
	}
	s.Cmd = exec.Command(Binary, "--listen", s.Socket, "--config-file", dir+"/config")
	s.Cmd.Stderr = s.Stderr
	if err := s.Cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Cmd.Process.Signal(os.Interrupt)
		stuck := time.AfterFunc(Patience, func() { s.Cmd.Process.Kill() })
		s.Cmd.Wait()
		stuck.Stop()
		os.RemoveAll(dir)
	})
	Eventually(t, "the runner listens", func() bool {
		conn, err := net.Dial("unix", s.Socket)
		if err != nil {
			return false
		}
		conn.Close()
		return true
	})
	return s
}

// Begun waits until a command has created the file.
func (s *Sandbox) Begun(file string) {
	s.T.Helper()
	c := s.Dial()
	Eventually(s.T, "the command runs", func() bool {
		f, _ := c.Call("fs.stat", wire.Fields{"path": file})
		return f["type"] != "error"
	})
}

// PeakMemory is the largest resident size of the runner so far.
func (s *Sandbox) PeakMemory() int {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.Cmd.Process.Pid))
	if err != nil {
		s.T.Fatal(err)
	}
	var kib int
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	fmt.Sscan(rest, &kib)
	return kib << 10
}
