package unpack

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// The program takes a folder for its root for good, so every layer of these tests has a process of its own: this one again.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "unpack-layer" {
		os.Exit(Main(os.Args[2:]))
	}
	if len(os.Args) > 1 && os.Args[1] == "restack-layer" {
		os.Exit(Restack(os.Args[2:]))
	}
	os.Exit(m.Run())
}

type entry struct {
	name, content, link string
	kind                byte
	mode                int64
	uid                 int
	xattrs              map[string]string
}

func file(name, content string) entry { return entry{name: name, content: content, kind: tar.TypeReg} }
func folder(name string) entry        { return entry{name: name, kind: tar.TypeDir} }
func symlink(name, to string) entry   { return entry{name: name, link: to, kind: tar.TypeSymlink} }
func hardlink(name, to string) entry  { return entry{name: name, link: to, kind: tar.TypeLink} }

func layerOf(t *testing.T, entries ...entry) []byte {
	t.Helper()
	buffer := &bytes.Buffer{}
	w := tar.NewWriter(buffer)
	for _, e := range entries {
		header := &tar.Header{Name: e.name, Typeflag: e.kind, Linkname: e.link, Mode: 0o644, Size: int64(len(e.content)),
			Uid: e.uid, Gid: e.uid, ModTime: time.Unix(1_600_000_000, 0), Format: tar.FormatPAX, PAXRecords: map[string]string{}}
		if e.kind == tar.TypeDir {
			header.Mode = 0o755
		}
		if e.mode != 0 {
			header.Mode = e.mode
		}
		for name, value := range e.xattrs {
			header.PAXRecords["SCHILY.xattr."+name] = value
		}
		if err := w.WriteHeader(header); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(e.content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buffer.Bytes()
}

func unpackIn(t *testing.T, parent string, layer []byte, more ...string) (string, result) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("unpacking gives files their owners, which only root may")
	}
	target := filepath.Join(parent, "layer")
	if err := os.Mkdir(target, 0o755); err != nil {
		t.Fatal(err)
	}
	args := append([]string{"unpack-layer", "--folder", target, "--max-bytes", "100000000", "--max-entries", "1000"}, more...)
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Stdin = bytes.NewReader(layer)
	said, _ := cmd.Output()
	r := result{}
	if err := json.Unmarshal(said, &r); err != nil {
		t.Fatalf("%v: %q", err, said)
	}
	return target, r
}

func unpacked(t *testing.T, entries ...entry) string {
	t.Helper()
	target, r := unpackIn(t, t.TempDir(), layerOf(t, entries...))
	if !r.Ok {
		t.Fatalf("refused: %s: %s: %s", r.Code, r.Entry, r.Issue)
	}
	return target
}

func content(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func stat(t *testing.T, path string) *syscall.Stat_t {
	t.Helper()
	st := &syscall.Stat_t{}
	if err := syscall.Lstat(path, st); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return st
}
