package oci

import (
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"sandglass/runner/internal/launch/socket"
	"sandglass/runner/internal/testns"
)

func TestASocketFolderIsTakenOnceTheRunnerListens(t *testing.T) {
	testns.Root(t)
	dir := t.TempDir()
	f := &socketFolder{Path: dir + "/folder", Name: "s", Target: "/socket", Owner: 1234}
	testns.File(t, testns.Dir(t, f.Path)+"/old", "left")
	if err := f.make(); err != nil {
		t.Fatal(err)
	}
	st := &syscall.Stat_t{}
	if err := syscall.Stat(f.Path, st); err != nil || st.Uid != 1234 || st.Mode&0o777 != 0o700 {
		t.Errorf("mode %o, owner %d, %v", st.Mode, st.Uid, err)
	}
	if entries, _ := os.ReadDir(f.Path); len(entries) != 0 {
		t.Errorf("it holds %v", entries)
	}
	listener, err := net.Listen("unix", f.Path+"/s")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	if err := f.take(dir+"/socket", nil, os.Getpid()); err != nil {
		t.Fatal(err)
	}
	if !answers(dir + "/socket") {
		t.Error("the socket does not answer at its new path")
	}
	if _, err := os.Stat(f.Path); !os.IsNotExist(err) {
		t.Errorf("the folder is left: %v", err)
	}
	if err := (*socketFolder)(nil).make(); err != nil {
		t.Error(err)
	}
}

func TestTheSocketForEgressIsTakenToo(t *testing.T) {
	testns.Root(t)
	dir := t.TempDir()
	f := &socketFolder{Path: dir + "/folder", Name: "s", EgressName: "e", Target: "/socket", Owner: 1234}
	if err := f.make(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"s", "e"} {
		listener, err := net.Listen("unix", f.Path+"/"+name)
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
	}
	egress := &socket.Owned{Path: dir + "/egress", Owner: 4321}
	if err := f.take(dir+"/socket", egress, os.Getpid()); err != nil {
		t.Fatal(err)
	}
	for path, owner := range map[string]int{dir + "/socket": os.Getuid(), egress.Path: egress.Owner} {
		st := &syscall.Stat_t{}
		if err := syscall.Lstat(path, st); err != nil || int(st.Uid) != owner || !answers(path) {
			t.Errorf("%s: owner %d, %v", path, st.Uid, err)
		}
	}
}

func TestARunnerThatEndsBeforeItListensIsAnError(t *testing.T) {
	f := &socketFolder{Path: t.TempDir(), Name: "s"}
	if err := f.take("/none", nil, 4_194_303); err == nil || !strings.Contains(err.Error(), "ended at once") {
		t.Errorf("got %v", err)
	}
	// SECURITY: what a sandbox puts there in place of a socket is not used.
	if err := os.Symlink("/run/other.sock", f.Path+"/s"); err != nil {
		t.Fatal(err)
	}
	if answers(f.Path + "/s") {
		t.Error("a link was taken for a socket")
	}
}
