package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestWriteThenReadGivesTheSameBytes(t *testing.T) {
	f := newFileFixture(t)
	content := bytes.Repeat([]byte{0, 255, 'x', '\n'}, 100_000)
	reply, _ := f.ok("write", fields{"path": "a/b/c", "mode": "640", "sync": true}, content)
	if reply["path"] != f.work+"/a/b/c" || reply["size"] != int64(len(content)) {
		t.Errorf("reply %v", reply)
	}
	reply, body := f.ok("read", fields{"path": "a/b/c"}, nil)
	if !bytes.Equal(body, content) || reply["truncated"] != false || reply["size"] != int64(len(content)) {
		t.Errorf("read %d bytes, %v", len(body), reply)
	}
	reply, body = f.ok("read", fields{"path": "a/b/c", "offset": 2, "max_bytes": 3}, nil)
	if string(body) != "x\n\x00" || reply["truncated"] != true {
		t.Errorf("range %q, %v", body, reply)
	}
	reply, _ = f.ok("read", fields{"path": "a/b/c", "max_bytes": 1, "inline": true}, nil)
	if reply["content_base64"] != "AA==" {
		t.Errorf("inline %v", reply)
	}
	f.ok("write", fields{"path": "a/b/c", "content_base64": "aGk="}, nil)
	info, err := os.Stat(f.work + "/a/b/c")
	f.must(err)
	if info.Mode() != 0o640 || info.Size() != 2 {
		t.Errorf("a second write keeps the mode: %v", info)
	}
	if names, _ := os.ReadDir(f.work + "/a/b"); len(names) != 1 {
		t.Errorf("left behind: %v", names)
	}
}

func TestBadPathsHaveTheirCodes(t *testing.T) {
	f := newFileFixture(t)
	f.must(os.Mkdir(f.work+"/dir", 0o755))
	f.put(f.work+"/file", "content")
	f.must(syscall.Mkfifo(f.work+"/fifo", 0o644))
	for name, target := range map[string]string{
		"out": f.outside, "out-file": f.outside + "/secret", "up": "..", "dangling": "nowhere", "loop": "loop",
		"magic": "/proc/self/root", "in": "dir", "new-outside": f.outside + "/new",
	} {
		f.must(os.Symlink(target, f.work+"/"+name))
	}
	long := strings.Repeat("n", 256)
	for _, c := range []struct{ code, kind, path string }{
		{codeFileNotFound, "read", "missing"},
		{codeFileNotFound, "read", "dangling"},
		{codeFileNotFound, "write", "dangling"},
		{codeFileNotFound, "fs.list", "missing"},
		{codeFileNotFound, "fs.remove", "missing"},
		{codeFileNotFound, "fs.mkdir", "missing/child"},
		{codePathOutside, "read", "../outside/secret"},
		{codePathOutside, "read", f.outside + "/secret"},
		{codePathOutside, "read", f.outside + "/missing"},
		{codePathOutside, "read", "out-file"},
		{codePathOutside, "read", "out/secret"},
		{codePathOutside, "read", "up/outside/secret"},
		{codePathOutside, "read", "magic/etc/passwd"},
		{codePathOutside, "read", "loop"},
		{codePathOutside, "write", "out-file"},
		{codePathOutside, "write", "out/new"},
		{codePathOutside, "write", "../new"},
		{codePathOutside, "write", "out/deep/new"},
		{codeFileNotFound, "write", "new-outside"},
		{codePathOutside, "fs.list", "out"},
		{codePathOutside, "fs.list", ".."},
		{codePathOutside, "fs.list", "/"},
		{codePathOutside, "fs.mkdir", "out/new"},
		{codePathOutside, "fs.remove", "out/secret"},
		{codePathOutside, "fs.remove", f.work},
		{codePathOutside, "fs.search", "out"},
		{codeInvalidRequest, "fs.remove", "dir/.."},
		{codeInvalidRequest, "fs.remove", "dir/."},
		{codeInvalidRequest, "read", "a\x00b"},
		{codeInvalidRequest, "read", ""},
		{codeInvalidRequest, "read", strings.Repeat("a/", 3000)},
		{codeInvalidRequest, "read", long},
		{codeInvalidRequest, "write", long},
		{codeIsADirectory, "read", "dir"},
		{codeIsADirectory, "write", "dir"},
		{codeIsADirectory, "write", "in"},
		{codeNotAFile, "read", "fifo"},
		{codeNotAFile, "write", "fifo"},
		{codeNotADirectory, "fs.list", "file"},
		{codeNotADirectory, "read", "file/x"},
		{codeNotADirectory, "write", "file/x"},
		{codeFileExists, "fs.mkdir", "dir"},
		{codeFileExists, "fs.mkdir", "dangling"},
	} {
		args, body := fields{"path": c.path, "name": "*"}, []byte(nil)
		if c.kind == "write" {
			body = []byte("new")
		}
		f.fails(c.code, c.kind, args, body)
	}
	f.untouched()
}

func TestWritingThroughALinkInsideReachesItsTarget(t *testing.T) {
	f := newFileFixture(t)
	f.put(f.work+"/target", "old")
	f.must(os.Symlink("target", f.work+"/link"))
	f.ok("write", fields{"path": "link"}, []byte("new"))
	content, _ := os.ReadFile(f.work + "/target")
	link, _ := os.Readlink(f.work + "/link")
	if string(content) != "new" || link != "target" {
		t.Errorf("%q, %q", content, link)
	}
}

func TestAnyNameSurvives(t *testing.T) {
	f := newFileFixture(t)
	names := []string{"new\nline", "not\xffutf8", "ünïcode", " space ", "-dash", "tab\t", "\x1b[31m", "..."}
	for _, name := range names {
		encoded := base64.StdEncoding.EncodeToString([]byte(name))
		f.ok("write", fields{"path_base64": encoded}, []byte(name))
		_, body := f.ok("read", fields{"path_base64": encoded}, nil)
		if string(body) != name {
			t.Errorf("%q: read %q", name, body)
		}
	}
	_, list := f.ok("fs.list", fields{"path": "."}, nil)
	var entries []entry
	f.must(json.Unmarshal(list, &entries))
	seen := map[string]bool{}
	for _, e := range entries {
		name := e.Name
		if e.NameBase64 != "" {
			raw, err := base64.StdEncoding.DecodeString(e.NameBase64)
			f.must(err)
			name = string(raw)
		}
		seen[name] = true
	}
	for _, name := range names {
		if !seen[name] {
			t.Errorf("%q is not listed", name)
		}
	}
	out := f.stream("archive.get", fields{"path": "."})
	in := f.stream("archive.put", fields{"path": "copy"})
	if m := in.upload(out.download(), 1000); m["type"] != "done" {
		t.Fatal(m)
	}
	for _, name := range names {
		if content, err := os.ReadFile(f.work + "/copy/" + name); err != nil || string(content) != name {
			t.Errorf("%q: %q, %v", name, content, err)
		}
	}
}

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

func TestPutAndGetStreamFiles(t *testing.T) {
	f := newFileFixture(t)
	content := bytes.Repeat([]byte("0123456789"), 300_000)
	if m := f.stream("file.put", fields{"path": "new/big", "mode": "700"}).upload(content, 70_001); m["type"] != "done" || m["size"] != float64(len(content)) {
		t.Fatal(m)
	}
	m, body := f.stream("file.get", fields{"path": "new/big"}).next()
	if !bytes.Equal(body, content) || m["mode"] != "0700" || m["size"] != float64(len(content)) {
		t.Errorf("%d bytes, %v", len(body), m)
	}
	m, body = f.stream("file.get", fields{"path": "new/big", "offset": 5, "length": 10}).next()
	if string(body) != "5678901234" {
		t.Errorf("%q, %v", body, m)
	}
	if m, _ = f.stream("file.get", fields{"path": "new/big", "offset": len(content) + 1}).next(); m["code"] != codeRangeUnmet {
		t.Error(m)
	}
	if m, _ = f.stream("file.get", fields{"path": "new"}).next(); m["code"] != codeIsADirectory {
		t.Error(m)
	}
}

func TestAPutThatIsCutOffLeavesTheOldFile(t *testing.T) {
	f := newFileFixture(t)
	f.put(f.work+"/file", "old")
	c := f.stream("file.put", fields{"path": "file"})
	c.next()
	f.must(c.out.message("chunk", "", nil, []byte("new")))
	c.conn.Close()
	deadline := time.Now().Add(5 * time.Second)
	for {
		names, _ := os.ReadDir(f.work)
		if len(names) == 1 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("left behind: %v", names)
		}
		time.Sleep(time.Millisecond)
	}
	if content, _ := os.ReadFile(f.work + "/file"); string(content) != "old" {
		t.Errorf("%q", content)
	}
}

func TestAFullDiskIsDiskFull(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounting a small tmpfs needs root")
	}
	f := newFileFixture(t)
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", f.work).CombinedOutput(); err != nil {
		t.Skipf("cannot mount: %v: %s", err, out)
	}
	defer syscall.Unmount(f.work, syscall.MNT_DETACH)
	f.put(f.work+"/kept", "old")
	f.fails(codeDiskFull, "write", fields{"path": "kept"}, make([]byte, 4<<20))
	if m := f.stream("file.put", fields{"path": "kept"}).upload(make([]byte, 4<<20), 65_536); m["code"] != codeDiskFull {
		t.Error(m)
	}
	if m := f.stream("archive.put", fields{"path": "."}).upload(tarOf(t, file("big", make([]byte, 4<<20))), 65_536); m["code"] != codeDiskFull {
		t.Error(m)
	}
	if content, _ := os.ReadFile(f.work + "/kept"); string(content) != "old" {
		t.Errorf("%q", content)
	}
	f.ok("write", fields{"path": "small"}, []byte("there is room again"))
}
