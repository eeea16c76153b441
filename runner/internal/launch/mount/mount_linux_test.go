package mount

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func TestAMountPointIsNeverReachedThroughALink(t *testing.T) {
	rootfs := t.TempDir()
	for _, dir := range []string{"home/sandbox", "elsewhere/sandbox"} {
		if err := os.MkdirAll(filepath.Join(rootfs, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	links := map[string]string{"inside": "elsewhere", "outside": "/", "last": "home"}
	for name, target := range links {
		if err := os.Symlink(target, filepath.Join(rootfs, name)); err != nil {
			t.Fatal(err)
		}
	}
	held, err := OpenPoint(rootfs, "/home/sandbox")
	if err != nil {
		t.Fatal(err)
	}
	held.Close()
	for _, target := range []string{"/inside/sandbox", "/outside/tmp", "/last"} {
		if held, err := OpenPoint(rootfs, target); !errors.Is(err, syscall.ELOOP) {
			held.Close()
			t.Errorf("%s: got %v, want ELOOP", target, err)
		}
	}
}
