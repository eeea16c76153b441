package sys

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestAWalkEndsWhereOpenat2Does(t *testing.T) {
	top := t.TempDir()
	for _, dir := range []string{"a/b/c", "other"} {
		if err := os.MkdirAll(filepath.Join(top, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(top, "a/file"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	links := map[string]string{
		"up": "..", "down": "a/b", "slash": "a/b/", "root": "/a/file", "file": "a/file", "dangling": "none", "self": "self",
		"a/back": "../other", "a/out": "../../../../../a", "a/b/long": "./../b/./../../a//file", "chain": "a/b/long", "away": "/other/..",
	}
	for name, target := range links {
		if err := os.Symlink(target, filepath.Join(top, name)); err != nil {
			t.Fatal(err)
		}
	}
	root, err := syscall.Open(top, OpenPath|syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(root)
	// Magic links of procfs are left out: neither way follows them, but their errors differ.
	paths := []string{".", "..", "", "/", "a", "a/", "a/.", "/a/b/c", "a/file", "a/file/", "a/file/..", "a/file/x", "none", "none/..", "a/../a/b",
		"a/../../../a", "//a///b//", strings.Repeat("a/../", 100) + "a", strings.Repeat("n", 300)}
	for name := range links {
		paths = append(paths, name, name+"/", name+"/x", name+"/..", "a/../"+name)
	}
	compared := 0
	for _, path := range paths {
		for _, flags := range []int{OpenPath, OpenPath | syscall.O_NOFOLLOW, OpenPath | syscall.O_DIRECTORY, syscall.O_RDONLY | syscall.O_DIRECTORY} {
			for _, resolve := range []uint64{ResolveInRoot | ResolveNoMagiclinks, ResolveBeneath, ResolveBeneath | ResolveNoSymlinks | ResolveNoXdev} {
				// An empty path is never opened.
				if path == "" {
					continue
				}
				wanted := outcome(Openat2(root, path, flags, resolve))
				if got := outcome(walkTo(root, path, flags, resolve)); got != wanted {
					t.Errorf("%q, flags %#x, resolve %#x: a walk gives %s, openat2 %s", path, flags, resolve, got, wanted)
				}
				compared++
			}
		}
	}
	t.Logf("%d compared", compared)
}

// outcome describes the opened file or the error.
func outcome(fd int, err error) string {
	if err != nil {
		return err.Error()
	}
	defer syscall.Close(fd)
	st := &syscall.Stat_t{}
	if err := syscall.Fstat(fd, st); err != nil {
		return err.Error()
	}
	return fmt.Sprintf("inode %d of device %d", st.Ino, st.Dev)
}
