package socket

import (
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"sandglass/runner/internal/testns"
)

func TestASocketListensForItsUserAloneAndReplacesAnOldOne(t *testing.T) {
	path := t.TempDir() + "/s"
	for i := 0; i < 2; i++ {
		file, err := Listen(path)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
}

func TestASocketIsInheritedByNobodyUnasked(t *testing.T) {
	file, err := New()
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	flags, err := os.ReadFile("/proc/self/fdinfo/" + fdOf(file))
	if err != nil || !strings.Contains(string(flags), "flags:\t02000002") {
		t.Errorf("not close-on-exec: %q, %v", flags, err)
	}
}

func TestASocketOfAnotherUserBelongsToThatUserAlone(t *testing.T) {
	testns.Root(t)
	made := &Owned{Path: t.TempDir() + "/made", Owner: 1234}
	bound := &Owned{Path: t.TempDir() + "/bound", Owner: 1234}
	file, err := New()
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := bound.ListenWith(file); err != nil {
		t.Fatal(err)
	}
	other, err := made.Listen()
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	for _, owned := range []*Owned{made, bound} {
		st := &syscall.Stat_t{}
		if err := syscall.Lstat(owned.Path, st); err != nil || st.Uid != 1234 || st.Mode&0o777 != 0o600 {
			t.Errorf("mode %o, owner %d, %v", st.Mode, st.Uid, err)
		}
		conn, err := net.Dial("unix", owned.Path)
		if err != nil {
			t.Fatal(err)
		}
		conn.Close()
	}
}

func TestAProcessThatOwnsTheSocketNeedsNoRights(t *testing.T) {
	owned := &Owned{Path: t.TempDir() + "/none", Owner: os.Geteuid()}
	if err := owned.Give(); err != nil {
		t.Error(err)
	}
	owned.Owner++
	if err := owned.Give(); err == nil {
		t.Error("a socket that does not exist was given to another user")
	}
}

func TestAPathThatCannotBeBoundIsAnError(t *testing.T) {
	for _, path := range []string{t.TempDir() + "/none/s", "/" + strings.Repeat("n", 200), "/proc/self/s"} {
		if file, err := Listen(path); err == nil {
			file.Close()
			t.Errorf("it listens at %s", path)
		}
	}
}

func fdOf(file *os.File) string {
	names, _ := os.ReadDir("/proc/self/fd")
	want, _ := file.Stat()
	for _, name := range names {
		if info, err := os.Stat("/proc/self/fd/" + name.Name()); err == nil && os.SameFile(info, want) {
			return name.Name()
		}
	}
	return ""
}
