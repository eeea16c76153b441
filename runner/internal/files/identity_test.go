package files

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"sandglass/runner/internal/runnertest"
	"sandglass/runner/internal/wire"
)

func TestEveryThreadIsItselfAgain(t *testing.T) {
	f := newFileFixture(t).AsSandbox()
	var group sync.WaitGroup
	for i := 0; i < 32; i++ {
		group.Add(1)
		go func(i int) {
			defer group.Done()
			for j := 0; j < 50; j++ {
				f.Call("write", wire.Fields{"path": fmt.Sprintf("f%d", i)}, []byte("x"))
				f.Call("read", wire.Fields{"path": fmt.Sprintf("f%d", i)}, nil)
			}
		}(i)
	}
	group.Wait()
	threads, err := filepath.Glob("/proc/self/task/*/status")
	f.Must(err)
	for _, thread := range threads {
		text, err := os.ReadFile(thread)
		if err != nil {
			continue // ended
		}
		for _, line := range strings.Split(string(text), "\n") {
			if strings.HasPrefix(line, "Uid:") && line != "Uid:\t0\t0\t0\t0" || strings.HasPrefix(line, "Gid:") && line != "Gid:\t0\t0\t0\t0" {
				t.Errorf("%s: %s", thread, line)
			}
		}
	}
}

func TestSearchNamesWhatItMayNotEnter(t *testing.T) {
	f := newFileFixture(t).AsSandbox()
	f.Must(os.Mkdir(f.Work+"/closed", 0o700))
	f.Put(f.Work+"/closed/hidden", "x")
	f.OK("write", wire.Fields{"path": "open"}, []byte("x"))
	_, body := f.OK("fs.search", wire.Fields{"name": "*"}, nil)
	if want := fmt.Sprintf(`[{"path":"%s/closed"},{"path":"%s/open"}]`, f.Work, f.Work); string(body) != want {
		t.Errorf("got %s, want %s", body, want)
	}
}

func TestRootReachesAllOfTheSandboxButTheKernelsFiles(t *testing.T) {
	f := newFileFixture(t).AsSandbox()
	f.Fails(wire.CodePathOutside, "read", wire.Fields{"path": f.Outside + "/secret"}, nil)
	if _, body := f.OK("read", wire.Fields{"path": f.Outside + "/secret", "user": "root"}, nil); string(body) != runnertest.Secret {
		t.Errorf("%q", body)
	}
	f.OK("write", wire.Fields{"path": f.Outside + "/new/file", "user": "root"}, []byte("x"))
	f.Must(os.Symlink(f.Outside, f.Work+"/out"))
	f.Fails(wire.CodePathOutside, "read", wire.Fields{"path": "out/secret"}, nil)
	f.OK("read", wire.Fields{"path": "out/secret", "user": "root"}, nil)
	for _, path := range []string{"/proc/self/environ", "/proc/self/root/etc/passwd", "/sys/kernel/uevent_seqnum"} {
		f.Fails(wire.CodePathOutside, "read", wire.Fields{"path": path, "user": "root"}, nil)
	}
	f.Fails(wire.CodeInvalidRequest, "read", wire.Fields{"path": "x", "user": "nobody"}, nil)
}
