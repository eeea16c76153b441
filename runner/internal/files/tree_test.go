package files

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"sandglass/runner/internal/sys"
	"sandglass/runner/internal/wire"
)

func TestListTenThousandFiles(t *testing.T) {
	f := newMemoryFixture(t)
	for i := 0; i < 10_000; i++ {
		f.Must(os.WriteFile(fmt.Sprintf("%s/%05d", f.Work, i), nil, 0o644))
	}
	reply, body := f.OK("fs.list", wire.Fields{"path": "."}, nil)
	var entries []Entry
	f.Must(json.Unmarshal(body, &entries))
	if len(entries) != 10_000 || reply["truncated"] != false || entries[0].Name != "00000" || entries[9999].Name != "09999" {
		t.Errorf("%d entries, %v", len(entries), reply)
	}
	reply, body = f.OK("fs.list", wire.Fields{"path": ".", "max_entries": 10}, nil)
	f.Must(json.Unmarshal(body, &entries))
	if len(entries) != 10 || reply["truncated"] != true {
		t.Errorf("%d entries, %v", len(entries), reply)
	}
	f.OK("fs.move", wire.Fields{"from": "00000", "to": "00000-moved"}, nil)
	f.OK("write", wire.Fields{"path": "many/x"}, []byte("x"))
	f.OK("fs.remove", wire.Fields{"path": "many", "recursive": true}, nil)
}

func TestListAndStatDescribeWithoutFollowing(t *testing.T) {
	f := newFileFixture(t)
	f.OK("write", wire.Fields{"path": "dir/sub/file", "mode": "600"}, []byte("12345"))
	f.Must(os.Symlink(f.Outside, f.Work+"/dir/out"))
	_, body := f.OK("fs.list", wire.Fields{"path": "dir", "recursive": true}, nil)
	var entries []Entry
	f.Must(json.Unmarshal(body, &entries))
	got := []string{}
	for _, e := range entries {
		got = append(got, strings.TrimPrefix(e.Path, f.Work)+":"+e.Type+":"+e.Mode)
	}
	if want := "/dir/out:symlink:0777 /dir/sub:directory:0755 /dir/sub/file:file:0600"; strings.Join(got, " ") != want {
		t.Errorf("got %v, want %s", got, want)
	}
	reply, _ := f.OK("fs.stat", wire.Fields{"path": "dir/out/"}, nil)
	if e := reply["entry"].(*Entry); e.Type != "symlink" || e.Target != f.Outside || e.Name != "out" {
		t.Errorf("%+v", e)
	}
	reply, _ = f.OK("fs.stat", wire.Fields{"path": f.Work}, nil)
	if e := reply["entry"].(*Entry); e.Type != "directory" || e.Path != f.Work {
		t.Errorf("%+v", e)
	}
}

func TestMkdirAndMove(t *testing.T) {
	f := newFileFixture(t)
	f.OK("fs.mkdir", wire.Fields{"path": "a/b", "parents": true, "mode": "711"}, nil)
	f.OK("fs.mkdir", wire.Fields{"path": "a/b", "parents": true}, nil)
	if info, err := os.Stat(f.Work + "/a/b"); err != nil || info.Mode().Perm() != 0o711 {
		t.Errorf("%v, %v", info, err)
	}
	f.OK("write", wire.Fields{"path": "one"}, []byte("1"))
	f.OK("write", wire.Fields{"path": "two"}, []byte("2"))
	f.Fails(wire.CodeFileExists, "fs.move", wire.Fields{"from": "one", "to": "two"}, nil)
	f.OK("fs.move", wire.Fields{"from": "one", "to": "two", "overwrite": true}, nil)
	f.Fails(wire.CodeFileNotFound, "fs.move", wire.Fields{"from": "one", "to": "three"}, nil)
	f.Fails(wire.CodeInvalidRequest, "fs.move", wire.Fields{"from": "a", "to": "a/b/c"}, nil)
	f.Fails(wire.CodePathOutside, "fs.move", wire.Fields{"from": "two", "to": "../outside/two"}, nil)
	f.Fails(wire.CodePathOutside, "fs.move", wire.Fields{"from": "../outside/secret", "to": "three"}, nil)
	f.Must(os.Symlink(f.Outside+"/secret", f.Work+"/link"))
	f.OK("fs.move", wire.Fields{"from": "link", "to": "a/link"}, nil)
	if target, err := os.Readlink(f.Work + "/a/link"); err != nil || target != f.Outside+"/secret" {
		t.Errorf("%q, %v", target, err)
	}
	f.Untouched()
}

func TestMoveToAnotherFilesystemCopies(t *testing.T) {
	f := newFileFixture(t)
	other, err := os.MkdirTemp("/dev/shm", "move")
	if err != nil {
		t.Skip("no /dev/shm: ", err)
	}
	defer os.RemoveAll(other)
	f.Config.FileRoots = append(f.Config.FileRoots, other)
	f.OK("write", wire.Fields{"path": "tree/sub/file", "mode": "750"}, []byte("content"))
	f.Must(os.Symlink("sub/file", f.Work+"/tree/link"))
	f.OK("fs.move", wire.Fields{"from": "tree", "to": other + "/tree"}, nil)
	content, err := os.ReadFile(other + "/tree/link")
	if err != nil || string(content) != "content" {
		t.Errorf("%q, %v", content, err)
	}
	if _, err := os.Stat(f.Work + "/tree"); !os.IsNotExist(err) {
		t.Errorf("the old tree is still there: %v", err)
	}
	f.OK("write", wire.Fields{"path": "tree"}, []byte("x"))
	f.Fails(wire.CodeFileExists, "fs.move", wire.Fields{"from": "tree", "to": other + "/tree"}, nil)
	if names, _ := os.ReadDir(other); len(names) != 1 {
		t.Errorf("left behind: %v", names)
	}
}

func TestRemoveTakesTheTreeAndNothingElse(t *testing.T) {
	f := newFileFixture(t)
	f.OK("write", wire.Fields{"path": "dir/file"}, []byte("x"))
	f.Must(os.Symlink(f.Outside, f.Work+"/dir/out"))
	f.Must(os.Symlink(f.Outside+"/secret", f.Work+"/link"))
	f.Must(os.Chmod(f.Outside, 0o777))
	f.Fails(wire.CodeNotEmpty, "fs.remove", wire.Fields{"path": "dir"}, nil)
	f.OK("fs.remove", wire.Fields{"path": "dir", "recursive": true}, nil)
	f.OK("fs.remove", wire.Fields{"path": "link", "recursive": true}, nil)
	f.Untouched()
	if names, _ := os.ReadDir(f.Work); len(names) != 0 {
		t.Errorf("left: %v", names)
	}
}

func TestRemoveATreeDeeperThanDescriptorsOrPathsReach(t *testing.T) {
	f := newMemoryFixture(t)
	f.Must(os.Mkdir(f.Work+"/deep", 0o755))
	dir, err := syscall.Open(f.Work+"/deep", syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0)
	f.Must(err)
	for i := 0; i < 5000; i++ {
		f.Must(syscall.Mkdirat(dir, "nested-directory", 0o755))
		next, err := sys.OpenDirAt(dir, "nested-directory")
		f.Must(err)
		syscall.Close(dir)
		dir = next
	}
	syscall.Close(dir)
	f.OK("fs.list", wire.Fields{"path": "deep", "recursive": true}, nil)
	f.OK("fs.remove", wire.Fields{"path": "deep", "recursive": true}, nil)
	if names, _ := os.ReadDir(f.Work); len(names) != 0 {
		t.Errorf("left: %v", names)
	}
}
