package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
)

func TestListTenThousandFiles(t *testing.T) {
	f := newMemoryFixture(t)
	for i := 0; i < 10_000; i++ {
		f.must(os.WriteFile(fmt.Sprintf("%s/%05d", f.work, i), nil, 0o644))
	}
	reply, body := f.ok("fs.list", fields{"path": "."}, nil)
	var entries []entry
	f.must(json.Unmarshal(body, &entries))
	if len(entries) != 10_000 || reply["truncated"] != false || entries[0].Name != "00000" || entries[9999].Name != "09999" {
		t.Errorf("%d entries, %v", len(entries), reply)
	}
	reply, body = f.ok("fs.list", fields{"path": ".", "max_entries": 10}, nil)
	f.must(json.Unmarshal(body, &entries))
	if len(entries) != 10 || reply["truncated"] != true {
		t.Errorf("%d entries, %v", len(entries), reply)
	}
	f.ok("fs.move", fields{"from": "00000", "to": "00000-moved"}, nil)
	f.ok("write", fields{"path": "many/x"}, []byte("x"))
	f.ok("fs.remove", fields{"path": "many", "recursive": true}, nil)
}

func TestListAndStatDescribeWithoutFollowing(t *testing.T) {
	f := newFileFixture(t)
	f.ok("write", fields{"path": "dir/sub/file", "mode": "600"}, []byte("12345"))
	f.must(os.Symlink(f.outside, f.work+"/dir/out"))
	_, body := f.ok("fs.list", fields{"path": "dir", "recursive": true}, nil)
	var entries []entry
	f.must(json.Unmarshal(body, &entries))
	got := []string{}
	for _, e := range entries {
		got = append(got, strings.TrimPrefix(e.Path, f.work)+":"+e.Type+":"+e.Mode)
	}
	if want := "/dir/out:symlink:0777 /dir/sub:directory:0755 /dir/sub/file:file:0600"; strings.Join(got, " ") != want {
		t.Errorf("got %v, want %s", got, want)
	}
	reply, _ := f.ok("fs.stat", fields{"path": "dir/out/"}, nil)
	if e := reply["entry"].(*entry); e.Type != "symlink" || e.Target != f.outside || e.Name != "out" {
		t.Errorf("%+v", e)
	}
	reply, _ = f.ok("fs.stat", fields{"path": f.work}, nil)
	if e := reply["entry"].(*entry); e.Type != "directory" || e.Path != f.work {
		t.Errorf("%+v", e)
	}
}

func TestMkdirAndMove(t *testing.T) {
	f := newFileFixture(t)
	f.ok("fs.mkdir", fields{"path": "a/b", "parents": true, "mode": "711"}, nil)
	f.ok("fs.mkdir", fields{"path": "a/b", "parents": true}, nil)
	if info, err := os.Stat(f.work + "/a/b"); err != nil || info.Mode().Perm() != 0o711 {
		t.Errorf("%v, %v", info, err)
	}
	f.ok("write", fields{"path": "one"}, []byte("1"))
	f.ok("write", fields{"path": "two"}, []byte("2"))
	f.fails(codeFileExists, "fs.move", fields{"from": "one", "to": "two"}, nil)
	f.ok("fs.move", fields{"from": "one", "to": "two", "overwrite": true}, nil)
	f.fails(codeFileNotFound, "fs.move", fields{"from": "one", "to": "three"}, nil)
	f.fails(codeInvalidRequest, "fs.move", fields{"from": "a", "to": "a/b/c"}, nil)
	f.fails(codePathOutside, "fs.move", fields{"from": "two", "to": "../outside/two"}, nil)
	f.fails(codePathOutside, "fs.move", fields{"from": "../outside/secret", "to": "three"}, nil)
	f.must(os.Symlink(f.outside+"/secret", f.work+"/link"))
	f.ok("fs.move", fields{"from": "link", "to": "a/link"}, nil)
	if target, err := os.Readlink(f.work + "/a/link"); err != nil || target != f.outside+"/secret" {
		t.Errorf("%q, %v", target, err)
	}
	f.untouched()
}

func TestMoveToAnotherFilesystemCopies(t *testing.T) {
	f := newFileFixture(t)
	other, err := os.MkdirTemp("/dev/shm", "move")
	if err != nil {
		t.Skip("no /dev/shm: ", err)
	}
	defer os.RemoveAll(other)
	f.run.cfg.FileRoots = append(f.run.cfg.FileRoots, other)
	f.ok("write", fields{"path": "tree/sub/file", "mode": "750"}, []byte("content"))
	f.must(os.Symlink("sub/file", f.work+"/tree/link"))
	f.ok("fs.move", fields{"from": "tree", "to": other + "/tree"}, nil)
	content, err := os.ReadFile(other + "/tree/link")
	if err != nil || string(content) != "content" {
		t.Errorf("%q, %v", content, err)
	}
	if _, err := os.Stat(f.work + "/tree"); !os.IsNotExist(err) {
		t.Errorf("the old tree is still there: %v", err)
	}
	f.ok("write", fields{"path": "tree"}, []byte("x"))
	f.fails(codeFileExists, "fs.move", fields{"from": "tree", "to": other + "/tree"}, nil)
	if names, _ := os.ReadDir(other); len(names) != 1 {
		t.Errorf("left behind: %v", names)
	}
}

func TestRemoveTakesTheTreeAndNothingElse(t *testing.T) {
	f := newFileFixture(t)
	f.ok("write", fields{"path": "dir/file"}, []byte("x"))
	f.must(os.Symlink(f.outside, f.work+"/dir/out"))
	f.must(os.Symlink(f.outside+"/secret", f.work+"/link"))
	f.must(os.Chmod(f.outside, 0o777))
	f.fails(codeNotEmpty, "fs.remove", fields{"path": "dir"}, nil)
	f.ok("fs.remove", fields{"path": "dir", "recursive": true}, nil)
	f.ok("fs.remove", fields{"path": "link", "recursive": true}, nil)
	f.untouched()
	if names, _ := os.ReadDir(f.work); len(names) != 0 {
		t.Errorf("left: %v", names)
	}
}

func TestRemoveATreeDeeperThanDescriptorsOrPathsReach(t *testing.T) {
	f := newMemoryFixture(t)
	f.must(os.Mkdir(f.work+"/deep", 0o755))
	dir, err := syscall.Open(f.work+"/deep", syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0)
	f.must(err)
	for i := 0; i < 5000; i++ {
		f.must(syscall.Mkdirat(dir, "nested-directory", 0o755))
		next, err := openDirAt(dir, "nested-directory")
		f.must(err)
		syscall.Close(dir)
		dir = next
	}
	syscall.Close(dir)
	f.ok("fs.list", fields{"path": "deep", "recursive": true}, nil)
	f.ok("fs.remove", fields{"path": "deep", "recursive": true}, nil)
	if names, _ := os.ReadDir(f.work); len(names) != 0 {
		t.Errorf("left: %v", names)
	}
}
