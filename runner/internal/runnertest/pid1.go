package runnertest

import (
	"bytes"
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"testing"

	"sandglass/runner/internal/wire"
)

// NeedsRoot skips a test that shows how the runner gives up rights, if the test has none.
func NeedsRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("changing users and namespaces needs root")
	}
}

// StartPID1 starts a runner as PID 1 of new namespaces, listening on inherited descriptors: for the daemon at Socket,
// and for the egress process, if the configuration has egress, at EgressSocket.
func StartPID1(t *testing.T, overrides wire.Fields) *Sandbox {
	t.Helper()
	NeedsRoot(t)
	dir, err := os.MkdirTemp("", "rt")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chown(dir, 1000, 1000); err != nil {
		t.Fatal(err)
	}
	cfg := wire.Fields{
		"token": Token, "workdir": dir, "home": dir, "user": wire.Fields{"name": "sandbox", "uid": 1000, "gid": 1000}, "loopback": []string{"127.0.0.53/8"},
	}
	for k, v := range overrides {
		cfg[k] = v
	}
	config, err := json.Marshal(cfg)
	if err != nil {
		t.Fatal(err)
	}
	socket, egress := listen(t, dir+"/sock"), listen(t, dir+"/egress")
	defer socket.Close()
	defer egress.Close()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	s := &Sandbox{T: t, Dir: dir, Socket: dir + "/sock", EgressSocket: dir + "/egress", Stderr: &bytes.Buffer{}}
	s.Cmd = exec.Command("unshare", "--pid", "--fork", "--mount-proc", "--net", "--kill-child",
		Binary, "--listen-fd", "3", "--config-fd", "4", "--egress-fd", "5")
	s.Cmd.Stderr, s.Cmd.ExtraFiles = s.Stderr, []*os.File{socket, r, egress}
	if err := s.Cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Cmd.Process.Kill()
		s.Cmd.Wait()
	})
	if _, err := w.Write(config); err != nil {
		t.Fatal(err)
	}
	w.Close()
	return s
}

// listen returns the descriptor of a socket that listens at a path.
func listen(t *testing.T, path string) *os.File {
	t.Helper()
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	listener.SetUnlinkOnClose(false)
	file, err := listener.File()
	if err != nil {
		t.Fatal(err)
	}
	return file
}
