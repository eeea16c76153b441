package files

import (
	"bytes"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"sandglass/runner/internal/runnertest"
	"sandglass/runner/internal/wire"
)

func TestWriteThenReadGivesTheSameBytes(t *testing.T) {
	f := newFileFixture(t)
	content := bytes.Repeat([]byte{0, 255, 'x', '\n'}, 100_000)
	reply, _ := f.OK("write", wire.Fields{"path": "a/b/c", "mode": "640", "sync": true}, content)
	if reply["path"] != f.Work+"/a/b/c" || reply["size"] != int64(len(content)) {
		t.Errorf("reply %v", reply)
	}
	reply, body := f.OK("read", wire.Fields{"path": "a/b/c"}, nil)
	if !bytes.Equal(body, content) || reply["truncated"] != false || reply["size"] != int64(len(content)) {
		t.Errorf("read %d bytes, %v", len(body), reply)
	}
	reply, body = f.OK("read", wire.Fields{"path": "a/b/c", "offset": 2, "max_bytes": 3}, nil)
	if string(body) != "x\n\x00" || reply["truncated"] != true {
		t.Errorf("range %q, %v", body, reply)
	}
	reply, _ = f.OK("read", wire.Fields{"path": "a/b/c", "max_bytes": 1, "inline": true}, nil)
	if reply["content_base64"] != "AA==" {
		t.Errorf("inline %v", reply)
	}
	f.OK("write", wire.Fields{"path": "a/b/c", "content_base64": "aGk="}, nil)
	info, err := os.Stat(f.Work + "/a/b/c")
	f.Must(err)
	if info.Mode() != 0o640 || info.Size() != 2 {
		t.Errorf("a second write keeps the mode: %v", info)
	}
	if names, _ := os.ReadDir(f.Work + "/a/b"); len(names) != 1 {
		t.Errorf("left behind: %v", names)
	}
}

func TestBadPathsHaveTheirCodes(t *testing.T) {
	f := newFileFixture(t)
	f.Must(os.Mkdir(f.Work+"/dir", 0o755))
	f.Put(f.Work+"/file", "content")
	f.Must(syscall.Mkfifo(f.Work+"/fifo", 0o644))
	for name, target := range map[string]string{
		"out": f.Outside, "out-file": f.Outside + "/secret", "up": "..", "dangling": "nowhere", "loop": "loop",
		"magic": "/proc/self/root", "in": "dir", "new-outside": f.Outside + "/new",
	} {
		f.Must(os.Symlink(target, f.Work+"/"+name))
	}
	long := strings.Repeat("n", 256)
	for _, c := range []struct{ code, kind, path string }{
		{wire.CodeFileNotFound, "read", "missing"},
		{wire.CodeFileNotFound, "read", "dangling"},
		{wire.CodeFileNotFound, "write", "dangling"},
		{wire.CodeFileNotFound, "fs.list", "missing"},
		{wire.CodeFileNotFound, "fs.remove", "missing"},
		{wire.CodeFileNotFound, "fs.mkdir", "missing/child"},
		{wire.CodePathOutside, "read", "../outside/secret"},
		{wire.CodePathOutside, "read", f.Outside + "/secret"},
		{wire.CodePathOutside, "read", f.Outside + "/missing"},
		{wire.CodePathOutside, "read", "out-file"},
		{wire.CodePathOutside, "read", "out/secret"},
		{wire.CodePathOutside, "read", "up/outside/secret"},
		{wire.CodePathOutside, "read", "magic/etc/passwd"},
		{wire.CodePathOutside, "read", "loop"},
		{wire.CodePathOutside, "write", "out-file"},
		{wire.CodePathOutside, "write", "out/new"},
		{wire.CodePathOutside, "write", "../new"},
		{wire.CodePathOutside, "write", "out/deep/new"},
		{wire.CodeFileNotFound, "write", "new-outside"},
		{wire.CodePathOutside, "fs.list", "out"},
		{wire.CodePathOutside, "fs.list", ".."},
		{wire.CodePathOutside, "fs.list", "/"},
		{wire.CodePathOutside, "fs.mkdir", "out/new"},
		{wire.CodePathOutside, "fs.remove", "out/secret"},
		{wire.CodePathOutside, "fs.remove", f.Work},
		{wire.CodePathOutside, "fs.search", "out"},
		{wire.CodeInvalidRequest, "fs.remove", "dir/.."},
		{wire.CodeInvalidRequest, "fs.remove", "dir/."},
		{wire.CodeInvalidRequest, "read", "a\x00b"},
		{wire.CodeInvalidRequest, "read", ""},
		{wire.CodeInvalidRequest, "read", strings.Repeat("a/", 3000)},
		{wire.CodeInvalidRequest, "read", long},
		{wire.CodeInvalidRequest, "write", long},
		{wire.CodeIsADirectory, "read", "dir"},
		{wire.CodeIsADirectory, "write", "dir"},
		{wire.CodeIsADirectory, "write", "in"},
		{wire.CodeNotAFile, "read", "fifo"},
		{wire.CodeNotAFile, "write", "fifo"},
		{wire.CodeNotADirectory, "fs.list", "file"},
		{wire.CodeNotADirectory, "read", "file/x"},
		{wire.CodeNotADirectory, "write", "file/x"},
		{wire.CodeFileExists, "fs.mkdir", "dir"},
		{wire.CodeFileExists, "fs.mkdir", "dangling"},
	} {
		args, body := wire.Fields{"path": c.path, "name": "*"}, []byte(nil)
		if c.kind == "write" {
			body = []byte("new")
		}
		f.Fails(c.code, c.kind, args, body)
	}
	f.Untouched()
}

func TestWritingThroughALinkInsideReachesItsTarget(t *testing.T) {
	f := newFileFixture(t)
	f.Put(f.Work+"/target", "old")
	f.Must(os.Symlink("target", f.Work+"/link"))
	f.OK("write", wire.Fields{"path": "link"}, []byte("new"))
	content, _ := os.ReadFile(f.Work + "/target")
	link, _ := os.Readlink(f.Work + "/link")
	if string(content) != "new" || link != "target" {
		t.Errorf("%q, %q", content, link)
	}
}

func TestPutAndGetStreamFiles(t *testing.T) {
	f := newFileFixture(t)
	content := bytes.Repeat([]byte("0123456789"), 300_000)
	if m := f.Stream("file.put", wire.Fields{"path": "new/big", "mode": "700"}).Upload(content, 70_001); m["type"] != "done" || m["size"] != float64(len(content)) {
		t.Fatal(m)
	}
	m, body := f.Stream("file.get", wire.Fields{"path": "new/big"}).Next()
	if !bytes.Equal(body, content) || m["mode"] != "0700" || m["size"] != float64(len(content)) {
		t.Errorf("%d bytes, %v", len(body), m)
	}
	m, body = f.Stream("file.get", wire.Fields{"path": "new/big", "offset": 5, "length": 10}).Next()
	if string(body) != "5678901234" {
		t.Errorf("%q, %v", body, m)
	}
	if m, _ = f.Stream("file.get", wire.Fields{"path": "new/big", "offset": len(content) + 1}).Next(); m["code"] != wire.CodeRangeUnmet {
		t.Error(m)
	}
	if m, _ = f.Stream("file.get", wire.Fields{"path": "new"}).Next(); m["code"] != wire.CodeIsADirectory {
		t.Error(m)
	}
}

func TestAPutThatIsCutOffLeavesTheOldFile(t *testing.T) {
	f := newFileFixture(t)
	f.Put(f.Work+"/file", "old")
	c := f.Stream("file.put", wire.Fields{"path": "file"})
	c.Next()
	f.Must(c.Out.Message("chunk", "", nil, []byte("new")))
	c.Conn.Close()
	deadline := time.Now().Add(runnertest.Patience)
	for {
		names, _ := os.ReadDir(f.Work)
		if len(names) == 1 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("left behind: %v", names)
		}
		time.Sleep(time.Millisecond)
	}
	if content, _ := os.ReadFile(f.Work + "/file"); string(content) != "old" {
		t.Errorf("%q", content)
	}
}
