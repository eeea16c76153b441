package main

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
)

func TestWhatCannotBeReadIsLeftOutAndNamedOrRefusedBeforeTheFirstByte(t *testing.T) {
	f := sandboxFixture(t)
	f.must(os.MkdirAll(f.work+"/tree/in/locked", 0o755))
	f.put(f.work+"/tree/in/secret", "secret")
	f.put(f.work+"/tree/last", "last")
	f.must(os.Chmod(f.work+"/tree/in/secret", 0))
	f.must(os.Chmod(f.work+"/tree/in/locked", 0o111))
	args := fields{"path": "tree"}
	if m, _ := f.stream("archive.get", args).next(); m["code"] != codePermissionDenied || !strings.Contains(fmt.Sprint(m["detail"]), "in/") {
		t.Errorf("got %v", m)
	}
	args["on_unreadable"] = "skip"
	c := f.stream("archive.get", args)
	if m, _ := c.next(); m["ok"] != true {
		t.Fatal(m)
	}
	content := c.download()
	want := []string{"unreadable: in/secret: permission denied", "unreadable: in/locked: permission denied"}
	if left := leftOut(t, content); strings.Join(left, "|") != strings.Join(want, "|") {
		t.Errorf("comments: %q", left)
	}
	if names := namesIn(t, content); strings.Join(names, " ") != "last in/" {
		t.Errorf("names: %q", names)
	}
}

func TestATreeDeeperThanAnyPathGoesOutAndInAgain(t *testing.T) {
	f := newMemoryFixture(t)
	const depth = 3000
	deepen(f, f.work+"/deep", depth)
	content := f.stream("archive.get", fields{"path": "deep"}).download()
	if names := namesIn(t, content); len(names) != depth+1 {
		t.Errorf("%d names", len(names))
	}
	m := f.stream("archive.put", fields{"path": "again", "atomic": true}).upload(content, 1<<20)
	if m["type"] != "done" || m["entries"] != float64(depth+1) {
		t.Fatal(m)
	}
	if got := namesIn(t, f.stream("archive.get", fields{"path": "again"}).download()); len(got) != depth+1 {
		t.Errorf("%d names", len(got))
	}
	for _, name := range []string{"deep", "again"} {
		f.ok("fs.remove", fields{"path": name, "recursive": true}, nil)
	}
}

// deepen makes depth folders of one letter, each in the one before, with a file in the last.
func deepen(f *fileFixture, top string, depth int) {
	f.Helper()
	f.must(os.Mkdir(top, 0o755))
	at, err := syscall.Open(top, syscall.O_DIRECTORY, 0)
	f.must(err)
	for i := 0; i < depth; i++ {
		f.must(syscall.Mkdirat(at, "d", 0o755))
		next, err := openDirAt(at, "d")
		f.must(err)
		syscall.Close(at)
		at = next
	}
	file, err := openAt(at, "file", syscall.O_CREAT|syscall.O_WRONLY, 0o644)
	f.must(err)
	syscall.Close(file)
	syscall.Close(at)
}

func TestAnArchiveThatFailsLeavesNoFolderBehind(t *testing.T) {
	evil := []tarEntry{file("fine", []byte("fine")), file("../evil", nil)}
	for name, atomic := range map[string]bool{"atomic": true, "plain": false} {
		t.Run(name, func(t *testing.T) {
			f := newFileFixture(t)
			entries := evil
			if !atomic {
				entries = evil[1:] // what was unpacked before an entry was refused stays there
			}
			m := f.stream("archive.put", fields{"path": "new/place", "atomic": atomic}).upload(tarOf(t, entries...), 512)
			if m["code"] != codeArchiveUnsafe {
				t.Errorf("got %v", m)
			}
			if left, _ := os.ReadDir(f.work); len(left) != 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

func TestAnAtomicArchiveReplacesNothing(t *testing.T) {
	f := newFileFixture(t)
	f.must(os.Mkdir(f.work+"/there", 0o755))
	m := f.stream("archive.put", fields{"path": "there", "atomic": true}).upload(tarOf(t, file("x", nil)), 512)
	if m["code"] != codeFileExists {
		t.Errorf("got %v", m)
	}
	if left, _ := os.ReadDir(f.work); len(left) != 1 {
		t.Errorf("left behind: %v", left)
	}
}

func namesIn(t *testing.T, content []byte) (names []string) {
	t.Helper()
	for r := tar.NewReader(bytes.NewReader(content)); ; {
		h, err := r.Next()
		if err == io.EOF {
			return names
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Typeflag != tar.TypeXGlobalHeader {
			names = append(names, h.Name)
		}
	}
}
