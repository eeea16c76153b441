package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

func sandboxFixture(t *testing.T) *fileFixture {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("changing to another user needs root")
	}
	f := newFileFixture(t)
	f.run.cfg.User = &account{"sandbox", 54321, 54321}
	// The folders above belong to root and may be closed to others.
	for dir := f.top; dir != "/"; dir = filepath.Dir(dir) {
		if info, err := os.Stat(dir); err == nil && strings.Contains(dir, "Test") && info.Mode().Perm()&0o005 != 5 {
			f.must(os.Chmod(dir, 0o755))
		}
	}
	f.must(os.Chown(f.work, 54321, 54321))
	return f
}

func TestCallsHaveTheRightsOfTheUser(t *testing.T) {
	f := sandboxFixture(t)
	f.ok("write", fields{"path": "dir/mine"}, []byte("x"))
	f.ok("fs.mkdir", fields{"path": "made"}, nil)
	if m := f.stream("file.put", fields{"path": "put"}).upload([]byte("x"), 1); m["type"] != "done" {
		t.Fatal(m)
	}
	if m := f.stream("archive.put", fields{"path": "."}).upload(tarOf(t, file("tar/unpacked", nil)), 512); m["type"] != "done" {
		t.Fatal(m)
	}
	for _, name := range []string{"dir", "dir/mine", "made", "put", "tar", "tar/unpacked"} {
		var st syscall.Stat_t
		f.must(syscall.Stat(f.work+"/"+name, &st))
		if st.Uid != 54321 || st.Gid != 54321 {
			t.Errorf("%s belongs to %d:%d", name, st.Uid, st.Gid)
		}
	}
	f.must(os.Mkdir(f.work+"/root", 0o700))
	f.put(f.work+"/root/file", "root's")
	f.put(f.work+"/group", "for root's group")
	f.must(os.Chmod(f.work+"/group", 0o040))
	for kind, path := range map[string]string{"read": "root/file", "fs.list": "root", "fs.stat": "root/file", "fs.mkdir": "root/new"} {
		f.fails(codePermissionDenied, kind, fields{"path": path}, nil)
	}
	f.fails(codePermissionDenied, "read", fields{"path": "group"}, nil)
	f.fails(codePermissionDenied, "write", fields{"path": "root/new"}, []byte("x"))
	f.fails(codePermissionDenied, "fs.remove", fields{"path": "root/file"}, nil)
	f.fails(codePermissionDenied, "fs.move", fields{"from": "root/file", "to": "stolen"}, nil)
	_, body := f.ok("read", fields{"path": "root/file", "user": "root"}, nil)
	if string(body) != "root's" {
		t.Errorf("%q", body)
	}
	f.fails(codeInvalidRequest, "read", fields{"path": "root/file", "user": "daemon"}, nil)
}

func TestEveryThreadIsItselfAgain(t *testing.T) {
	f := sandboxFixture(t)
	var group sync.WaitGroup
	for i := 0; i < 32; i++ {
		group.Add(1)
		go func(i int) {
			defer group.Done()
			for j := 0; j < 50; j++ {
				f.call("write", fields{"path": fmt.Sprintf("f%d", i)}, []byte("x"))
				f.call("read", fields{"path": fmt.Sprintf("f%d", i)}, nil)
			}
		}(i)
	}
	group.Wait()
	threads, err := filepath.Glob("/proc/self/task/*/status")
	f.must(err)
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
	f := sandboxFixture(t)
	f.must(os.Mkdir(f.work+"/closed", 0o700))
	f.put(f.work+"/closed/hidden", "x")
	f.ok("write", fields{"path": "open"}, []byte("x"))
	_, body := f.ok("fs.search", fields{"name": "*"}, nil)
	if want := fmt.Sprintf(`[{"path":"%s/closed"},{"path":"%s/open"}]`, f.work, f.work); string(body) != want {
		t.Errorf("got %s, want %s", body, want)
	}
}

func TestRootReachesAllOfTheSandboxButTheKernelsFiles(t *testing.T) {
	f := sandboxFixture(t)
	f.fails(codePathOutside, "read", fields{"path": f.outside + "/secret"}, nil)
	if _, body := f.ok("read", fields{"path": f.outside + "/secret", "user": "root"}, nil); string(body) != secret {
		t.Errorf("%q", body)
	}
	f.ok("write", fields{"path": f.outside + "/new/file", "user": "root"}, []byte("x"))
	f.must(os.Symlink(f.outside, f.work+"/out"))
	f.fails(codePathOutside, "read", fields{"path": "out/secret"}, nil)
	f.ok("read", fields{"path": "out/secret", "user": "root"}, nil)
	for _, path := range []string{"/proc/self/environ", "/proc/self/root/etc/passwd", "/sys/kernel/uevent_seqnum"} {
		f.fails(codePathOutside, "read", fields{"path": path, "user": "root"}, nil)
	}
	f.fails(codeInvalidRequest, "read", fields{"path": "x", "user": "nobody"}, nil)
}
