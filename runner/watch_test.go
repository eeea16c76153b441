package main

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// follow reads changes until one is as wanted, and fails when the deadline passes first.
func (c *fileClient) follow(want string) {
	c.Helper()
	c.conn.SetDeadline(time.Now().Add(10 * time.Second))
	seen := []string{}
	for {
		line, err := c.in.line()
		if err != nil {
			c.Fatalf("waiting for %q: %v; seen %v", want, err, seen)
		}
		event := strings.ReplaceAll(changeText(c, line), c.work, "")
		if event == want {
			return
		}
		seen = append(seen, event)
	}
}

func changeText(c *fileClient, line []byte) string {
	m := fields{}
	c.must((&message{raw: line}).decode(&m))
	if from, ok := m["from"]; ok {
		return fmt.Sprintf("%v %v from %v", m["event"], m["path"], from)
	}
	return fmt.Sprintf("%v %v", m["event"], m["path"])
}

func TestWatchTellsOfEveryKindOfChange(t *testing.T) {
	f := newFileFixture(t)
	f.must(os.Mkdir(f.work+"/sub", 0o755))
	f.must(os.Symlink(f.outside, f.work+"/out"))
	c := f.stream("fs.watch", fields{"path": ".", "recursive": true})
	if m, _ := c.next(); m["ok"] != true {
		t.Fatal(m)
	}
	f.put(f.work+"/sub/new\nline", "x")
	c.follow("created /sub/new\nline")
	f.put(f.work+"/sub/new\nline", "y")
	c.follow("modified /sub/new\nline")
	f.must(os.Rename(f.work+"/sub/new\nline", f.work+"/moved"))
	c.follow("moved /moved from /sub/new\nline")
	f.must(os.Remove(f.work + "/moved"))
	c.follow("removed /moved")
	f.must(os.MkdirAll(f.work+"/made/deep/deeper", 0o755))
	f.put(f.work+"/made/deep/deeper/file", "x")
	c.follow("created /made/deep/deeper/file")
	f.must(os.Rename(f.work+"/made", f.work+"/renamed"))
	c.follow("moved /renamed from /made")
	f.put(f.work+"/renamed/deep/deeper/file", "xx")
	c.follow("modified /renamed/deep/deeper/file")
	f.must(os.Rename(f.work+"/renamed", f.top+"/elsewhere"))
	c.follow("removed /renamed")
	f.put(f.top+"/elsewhere/deep/unseen", "x")
	f.put(f.outside+"/unseen", "x")
	f.ok("write", fields{"path": "written"}, []byte("x"))
	line, err := c.in.line()
	f.must(err)
	if got := changeText(c, line); got != "modified "+f.work+"/written" {
		t.Errorf("got %q", got)
	}
}

func TestWatchOneFileAndOneLevel(t *testing.T) {
	f := newFileFixture(t)
	f.ok("write", fields{"path": "sub/file"}, []byte("x"))
	one := f.stream("fs.watch", fields{"path": "sub/file"})
	one.next()
	level := f.stream("fs.watch", fields{"path": "."})
	level.next()
	f.put(f.work+"/sub/file", "y")
	one.follow("modified /sub/file")
	f.put(f.work+"/here", "x")
	line, err := level.in.line()
	f.must(err)
	if got := changeText(level, line); got != "created "+f.work+"/here" {
		t.Errorf("got %q", got)
	}
	if m, _ := f.stream("fs.watch", fields{"path": "missing"}).next(); m["code"] != codeFileNotFound {
		t.Error(m)
	}
	if m, _ := f.stream("fs.watch", fields{"path": ".."}).next(); m["code"] != codePathOutside {
		t.Error(m)
	}
}
