package socket

import (
	"net"
	"os"
	"strings"
	"testing"
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
