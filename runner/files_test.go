package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
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
