package guest

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

func TestReadAheadReadsRegularFilesUpToABound(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, size := range map[string]int64{"program": 5000, "large": 1 << 40} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(path, size); err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]int64{
		filepath.Join(dir, "pipe"): 0, filepath.Join(dir, "program"): 5000, filepath.Join(dir, "large"): 8192, dir: 0, "/dev/zero": 0,
		"/proc/self/status": 0,
	} {
		fd, err := syscall.Open(path, oPath|syscall.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		place := os.NewFile(uintptr(fd), path)
		read := make(chan int64, 1)
		go func() { read <- readUpTo(8192, place) }()
		select {
		case got := <-read:
			if got != want {
				t.Errorf("%s: read %d bytes of %d", path, got, want)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("%s blocks the machine", path)
		}
		place.Close()
	}
}
