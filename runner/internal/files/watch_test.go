package files

import (
	"os"
	"testing"

	"sandglass/runner/internal/runnertest"
	"sandglass/runner/internal/wire"
)

func TestWatchTellsOfEveryKindOfChange(t *testing.T) {
	f := newFileFixture(t)
	f.Must(os.Mkdir(f.Work+"/sub", 0o755))
	f.Must(os.Symlink(f.Outside, f.Work+"/out"))
	c := f.Stream("fs.watch", wire.Fields{"path": ".", "recursive": true})
	if m, _ := c.Next(); m["ok"] != true {
		t.Fatal(m)
	}
	f.Put(f.Work+"/sub/new\nline", "x")
	c.Follow("created /sub/new\nline")
	f.Put(f.Work+"/sub/new\nline", "y")
	c.Follow("modified /sub/new\nline")
	f.Must(os.Rename(f.Work+"/sub/new\nline", f.Work+"/moved"))
	c.Follow("moved /moved from /sub/new\nline")
	f.Must(os.Remove(f.Work + "/moved"))
	c.Follow("removed /moved")
	f.Must(os.MkdirAll(f.Work+"/made/deep/deeper", 0o755))
	f.Put(f.Work+"/made/deep/deeper/file", "x")
	c.Follow("created /made/deep/deeper/file")
	f.Must(os.Rename(f.Work+"/made", f.Work+"/renamed"))
	c.Follow("moved /renamed from /made")
	f.Put(f.Work+"/renamed/deep/deeper/file", "xx")
	c.Follow("modified /renamed/deep/deeper/file")
	f.Must(os.Rename(f.Work+"/renamed", f.Top+"/elsewhere"))
	c.Follow("removed /renamed")
	f.Put(f.Top+"/elsewhere/deep/unseen", "x")
	f.Put(f.Outside+"/unseen", "x")
	f.OK("write", wire.Fields{"path": "written"}, []byte("x"))
	line, err := c.In.Line()
	f.Must(err)
	if got := runnertest.ChangeText(c, line); got != "modified "+f.Work+"/written" {
		t.Errorf("got %q", got)
	}
}

func TestWatchOneFileAndOneLevel(t *testing.T) {
	f := newFileFixture(t)
	f.OK("write", wire.Fields{"path": "sub/file"}, []byte("x"))
	one := f.Stream("fs.watch", wire.Fields{"path": "sub/file"})
	one.Next()
	level := f.Stream("fs.watch", wire.Fields{"path": "."})
	level.Next()
	f.Put(f.Work+"/sub/file", "y")
	one.Follow("modified /sub/file")
	f.Put(f.Work+"/here", "x")
	line, err := level.In.Line()
	f.Must(err)
	if got := runnertest.ChangeText(level, line); got != "created "+f.Work+"/here" {
		t.Errorf("got %q", got)
	}
	if m, _ := f.Stream("fs.watch", wire.Fields{"path": "missing"}).Next(); m["code"] != wire.CodeFileNotFound {
		t.Error(m)
	}
	if m, _ := f.Stream("fs.watch", wire.Fields{"path": ".."}).Next(); m["code"] != wire.CodePathOutside {
		t.Error(m)
	}
}
