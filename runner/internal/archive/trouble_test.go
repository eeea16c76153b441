package archive

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"sandglass/runner/internal/runnertest"
	"sandglass/runner/internal/sys"
	"sandglass/runner/internal/wire"
)

func TestWhatCannotBeReadIsLeftOutAndNamedOrRefusedBeforeTheFirstByte(t *testing.T) {
	f := newFileFixture(t).AsSandbox()
	f.Must(os.MkdirAll(f.Work+"/tree/in/locked", 0o755))
	f.Put(f.Work+"/tree/in/secret", "secret")
	f.Put(f.Work+"/tree/last", "last")
	f.Must(os.Chmod(f.Work+"/tree/in/secret", 0))
	f.Must(os.Chmod(f.Work+"/tree/in/locked", 0o111))
	args := wire.Fields{"path": "tree"}
	if m, _ := f.Stream("archive.get", args).Next(); m["code"] != wire.CodePermissionDenied || !strings.Contains(fmt.Sprint(m["detail"]), "in/") {
		t.Errorf("got %v", m)
	}
	args["on_unreadable"] = "skip"
	c := f.Stream("archive.get", args)
	if m, _ := c.Next(); m["ok"] != true {
		t.Fatal(m)
	}
	content := c.Download()
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
	deepen(f, f.Work+"/deep", depth)
	content := f.Stream("archive.get", wire.Fields{"path": "deep"}).Download()
	if names := namesIn(t, content); len(names) != depth+1 {
		t.Errorf("%d names", len(names))
	}
	m := f.Stream("archive.put", wire.Fields{"path": "again", "atomic": true}).Upload(content, 1<<20)
	if m["type"] != "done" || m["entries"] != float64(depth+1) {
		t.Fatal(m)
	}
	if got := namesIn(t, f.Stream("archive.get", wire.Fields{"path": "again"}).Download()); len(got) != depth+1 {
		t.Errorf("%d names", len(got))
	}
	for _, name := range []string{"deep", "again"} {
		f.OK("fs.remove", wire.Fields{"path": name, "recursive": true}, nil)
	}
}

// deepen creates a chain of depth nested folders with a file in the last.
func deepen(f *runnertest.Files, top string, depth int) {
	f.Helper()
	f.Must(os.Mkdir(top, 0o755))
	at, err := syscall.Open(top, syscall.O_DIRECTORY, 0)
	f.Must(err)
	for i := 0; i < depth; i++ {
		f.Must(syscall.Mkdirat(at, "d", 0o755))
		next, err := sys.OpenDirAt(at, "d")
		f.Must(err)
		syscall.Close(at)
		at = next
	}
	file, err := sys.OpenAt(at, "file", syscall.O_CREAT|syscall.O_WRONLY, 0o644)
	f.Must(err)
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
			m := f.Stream("archive.put", wire.Fields{"path": "new/place", "atomic": atomic}).Upload(tarOf(t, entries...), 512)
			if m["code"] != wire.CodeArchiveUnsafe {
				t.Errorf("got %v", m)
			}
			if left, _ := os.ReadDir(f.Work); len(left) != 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

func TestAnAtomicArchiveReplacesNothing(t *testing.T) {
	f := newFileFixture(t)
	f.Must(os.Mkdir(f.Work+"/there", 0o755))
	m := f.Stream("archive.put", wire.Fields{"path": "there", "atomic": true}).Upload(tarOf(t, file("x", nil)), 512)
	if m["code"] != wire.CodeFileExists {
		t.Errorf("got %v", m)
	}
	if left, _ := os.ReadDir(f.Work); len(left) != 1 {
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

func TestAFullDiskIsDiskFull(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounting a small tmpfs needs root")
	}
	f := newFileFixture(t)
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", f.Work).CombinedOutput(); err != nil {
		t.Skipf("cannot mount: %v: %s", err, out)
	}
	defer syscall.Unmount(f.Work, syscall.MNT_DETACH)
	f.Put(f.Work+"/kept", "old")
	f.Fails(wire.CodeDiskFull, "write", wire.Fields{"path": "kept"}, make([]byte, 4<<20))
	if m := f.Stream("file.put", wire.Fields{"path": "kept"}).Upload(make([]byte, 4<<20), 65_536); m["code"] != wire.CodeDiskFull {
		t.Error(m)
	}
	if m := f.Stream("archive.put", wire.Fields{"path": "."}).Upload(tarOf(t, file("big", make([]byte, 4<<20))), 65_536); m["code"] != wire.CodeDiskFull {
		t.Error(m)
	}
	if content, _ := os.ReadFile(f.Work + "/kept"); string(content) != "old" {
		t.Errorf("%q", content)
	}
	f.OK("write", wire.Fields{"path": "small"}, []byte("there is room again"))
}
