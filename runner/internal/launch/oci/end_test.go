package oci

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"sandglass/runner/internal/launch/disk"
	"sandglass/runner/internal/launch/pidfd"
	"sandglass/runner/internal/launch/socket"
	"sandglass/runner/internal/testns"
)

// started runs a program and ends it with the test.

func started(t *testing.T, cmd *exec.Cmd) *exec.Cmd {
	t.Helper()
	if err := cmd.Start(); err != nil {
		t.Skipf("cannot start %v: %v", cmd.Args, err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	return cmd
}

func TestStragglersAreFoundByTheirSocketAndByTheirCommandLine(t *testing.T) {
	testns.Root(t)
	dir := t.TempDir()
	path := dir + "/run.sock"
	listener, err := socket.Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	withSocket := exec.Command("sleep", "600")
	withSocket.ExtraFiles = []*os.File{listener}
	started(t, withSocket)
	listener.Close()
	holder := exec.Command("sleep", "600")
	holder.Args = disk.HolderArgs(dir)
	holder.Path = "/proc/self/exe" // this program, which waits: see TestMain
	started(t, holder)
	other := started(t, exec.Command("sleep", "600"))
	if err := endStragglers(dir, path, time.Now().Add(10*time.Second)); err != nil {
		t.Fatal(err)
	}
	for name, cmd := range map[string]*exec.Cmd{"with the socket": withSocket, "the holder": holder} {
		if err := cmd.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := other.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("another process: %v", err)
	}
}

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "hold-disk" {
		time.Sleep(10 * time.Minute)
	}
	os.Exit(m.Run())
}

// image makes two layers below a base folder.

// fakeRuntime is a runtime that copies what it was given, and starts a process that stays.

func TestAnEndRemovesWhatIsLeftAndEndsTwice(t *testing.T) {
	testns.Root(t)
	dir := t.TempDir()
	cmd := started(t, exec.Command("sleep", "600"))
	identity, err := pidfd.Identify(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	go cmd.Wait()
	folder := testns.Dir(t, dir+"/session")
	for _, name := range []string{"state.json", "pid", "config.json"} {
		testns.File(t, folder+"/"+name, "{}")
	}
	testns.File(t, testns.Dir(t, dir+"/records")+"/state", "")
	testns.File(t, testns.Dir(t, dir+"/sockets")+"/s", "")
	j := &endJob{ID: "box", Runtime: []string{"/no/such/runtime"}, Records: dir + "/records", Folder: folder, Socket: testns.File(t, dir+"/sock", ""),
		EgressSocket: testns.File(t, dir+"/egress", ""),
		SocketFolder: dir + "/sockets", State: &state{Identity: *identity}}
	for i := 0; i < 2; i++ {
		if err := end(j, &result{}); err != nil {
			t.Fatalf("time %d: %v", i+1, err)
		}
	}
	if h, err := identity.Open(); err != nil || h != nil {
		t.Errorf("the machine runs: %v, %v", h, err)
	}
	left, err := os.ReadDir(folder)
	if err != nil || len(left) != 1 || left[0].Name() != "config.json" {
		t.Errorf("left in the folder: %v, %v", left, err)
	}
	for _, path := range []string{j.Records, j.Socket, j.EgressSocket, j.SocketFolder} {
		if _, err := os.Lstat(path); !os.IsNotExist(err) {
			t.Errorf("%s is left: %v", path, err)
		}
	}
}
