package archive

import (
	"archive/tar"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"sandglass/runner/internal/files"
	"sandglass/runner/internal/wire"
)

func TestSymbolicLinksAreUnpackedAsTheyAreWhateverTheyPointTo(t *testing.T) {
	f := newFileFixture(t)
	f.Must(os.Symlink(f.Outside, f.Work+"/bin"))
	links := map[string]string{
		"venv/python3": "/usr/bin/python3", "venv/up": "../../outside", "dangling": "/nowhere/at/all", "self": "self", "bin": "/etc", "dir": f.Outside,
	}
	entries := []tarEntry{}
	for name, to := range links {
		entries = append(entries, link(tar.TypeSymlink, name, to))
	}
	if m := f.Stream("archive.put", wire.Fields{"path": "."}).Upload(tarOf(t, entries...), 512); m["type"] != "done" {
		t.Fatal(m)
	}
	for name, want := range links {
		if got, err := os.Readlink(f.Work + "/" + name); err != nil || got != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	f.Untouched()
}

func TestNothingIsWrittenThroughALinkOfTheSameArchive(t *testing.T) {
	evil := []byte("evil")
	for name, later := range map[string]tarEntry{
		"a file":               file("x/secret", evil),
		"a new file":           file("x/new", evil),
		"a file further down":  file("x/sub/new", evil),
		"a directory":          {tar.Header{Typeflag: tar.TypeDir, Name: "x/sub", Mode: 0o755}, nil},
		"the link's directory": {tar.Header{Typeflag: tar.TypeDir, Name: "x", Mode: 0o700}, nil},
		"a symbolic link":      link(tar.TypeSymlink, "x/link", "secret"),
		"a hard link":          link(tar.TypeLink, "x/hard", "own"),
		"a hard link from it":  link(tar.TypeLink, "hard", "x/secret"),
	} {
		for kind, to := range map[string]string{"absolute": "", "climbing": "../outside"} {
			t.Run(name+", "+kind, func(t *testing.T) {
				f := newFileFixture(t)
				f.Must(os.Chmod(f.Outside, 0o777))
				if to == "" {
					to = f.Outside
				}
				archive := tarOf(t, file("own", evil), link(tar.TypeSymlink, "x", to), later)
				if m := f.Stream("archive.put", wire.Fields{"path": "."}).Upload(archive, 512); m["code"] != wire.CodeArchiveUnsafe {
					t.Errorf("got %v", m)
				}
				f.Untouched()
				if left, err := os.ReadDir(f.Outside); err != nil || len(left) != 1 {
					t.Errorf("outside: %v, %v", left, err)
				}
			})
		}
	}
}

func TestUnsafeArchivesAreRefusedAndTouchNothing(t *testing.T) {
	evil := []byte("evil")
	dir := func(name string) tarEntry {
		return tarEntry{tar.Header{Typeflag: tar.TypeDir, Name: name, Mode: 0o755}, nil}
	}
	for name, entries := range map[string][]tarEntry{
		"dot dot":                 {file("../outside/secret", evil)},
		"dot dot inside":          {file("a/../../outside/secret", evil)},
		"dot dot at the end":      {dir("a/..")},
		"absolute":                {file("/etc/evil", evil)},
		"absolute with dots":      {file("/../etc/evil", evil)},
		"empty symlink":           {link(tar.TypeSymlink, "l", "")},
		"file through a symlink":  {link(tar.TypeSymlink, "l", "."), file("l/../x", evil)},
		"file through own link":   {dir("d"), link(tar.TypeSymlink, "l", "d"), file("l/x", evil)},
		"file through their link": {file("out/secret", evil)},
		"directory over a link":   {dir("out")},
		"hard link out":           {link(tar.TypeLink, "h", "../outside/secret")},
		"absolute hard link":      {link(tar.TypeLink, "h", "/etc/passwd")},
		"hard link through link":  {link(tar.TypeLink, "h", "out/secret")},
		"hard link to a link":     {link(tar.TypeLink, "h", "out-file")},
		"character device":        {{tar.Header{Typeflag: tar.TypeChar, Name: "dev", Devmajor: 1, Devminor: 3}, nil}},
		"block device":            {{tar.Header{Typeflag: tar.TypeBlock, Name: "dev", Devmajor: 8}, nil}},
		"fifo":                    {{tar.Header{Typeflag: tar.TypeFifo, Name: "fifo"}, nil}},
		"overlong part":           {file(strings.Repeat("n", 256), evil)},
		"overlong name":           {file(strings.Repeat("n/", maxArchiveName/2)+"n", evil)},
		"pax path override": {{tar.Header{Typeflag: tar.TypeReg, Name: "x", Size: 4, Format: tar.FormatPAX,
			PAXRecords: map[string]string{"SANDGLASS.x": "y"}}, evil}, file("../../"+strings.Repeat("long/", 40)+"x", evil)},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFileFixture(t)
			f.Must(os.Chmod(f.Outside, 0o777))
			f.Must(os.Symlink(f.Outside, f.Work+"/out"))
			f.Must(os.Symlink(f.Outside+"/secret", f.Work+"/out-file"))
			m := f.Stream("archive.put", wire.Fields{"path": "."}).Upload(tarOf(t, entries...), 512)
			if m["code"] != wire.CodeArchiveUnsafe {
				t.Errorf("got %v", m)
			}
			f.Untouched()
		})
	}
}

func TestAnArchiveComesOutAsItWentIn(t *testing.T) {
	f := newFileFixture(t)
	when := time.Unix(1_600_000_000, 0)
	setuid := file("setuid", []byte("#!"))
	setuid.Mode, setuid.ModTime = 0o6755, when
	locked := tarEntry{tar.Header{Typeflag: tar.TypeDir, Name: "locked/", Mode: 0o555}, nil}
	long := strings.Repeat("d", 200) + "/" + strings.Repeat("f", 200)
	content := tarOf(t, tarEntry{tar.Header{Typeflag: tar.TypeDir, Name: "./", Mode: 0o700}, nil}, locked, file("locked/in", []byte("in")), setuid,
		file("twice", []byte("first")), file("twice", []byte("second")), link(tar.TypeSymlink, "a/b/link", "../../twice"),
		link(tar.TypeLink, "hard", "twice"), file(long, []byte("long")), file("./dotted//name", []byte("dotted")))
	m := f.Stream("archive.put", wire.Fields{"path": "new/place"}).Upload(content, 100)
	if m["type"] != "done" || m["entries"] != float64(10) {
		t.Fatal(m)
	}
	at := f.Work + "/new/place/"
	for name, want := range map[string]string{"twice": "second", "hard": "second", "a/b/link": "second", long: "long", "dotted/name": "dotted", "locked/in": "in"} {
		if got, err := os.ReadFile(at + name); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	var st syscall.Stat_t
	f.Must(syscall.Stat(at+"setuid", &st))
	if st.Mode&0o7777 != 0o755 || st.Mtim.Sec != when.Unix() {
		t.Errorf("mode %o, time %d", st.Mode, st.Mtim.Sec)
	}
	f.Must(syscall.Stat(at+"locked", &st))
	if st.Mode&0o7777 != 0o555 {
		t.Errorf("mode %o", st.Mode)
	}
	f.Must(syscall.Mkfifo(at+"fifo", 0o644))
	again := f.Stream("archive.get", wire.Fields{"path": "new/place"}).Download()
	if left := leftOut(t, again); len(left) != 1 || left[0] != "left out: pipe fifo" {
		t.Errorf("left out: %q", left)
	}
	if m := f.Stream("archive.put", wire.Fields{"path": "copy"}).Upload(again, 1<<20); m["type"] != "done" {
		t.Fatal(m)
	}
	if got, err := os.ReadFile(f.Work + "/copy/a/b/link"); err != nil || string(got) != "second" {
		t.Errorf("%q, %v", got, err)
	}
	f.Must(os.Chmod(at+"locked", 0o755))
	f.Must(os.Chmod(f.Work+"/copy/locked", 0o755))
	single := tar.NewReader(bytes.NewReader(f.Stream("archive.get", wire.Fields{"path": "new/place/twice"}).Download()))
	if h, err := single.Next(); err != nil || h.Name != "twice" {
		t.Errorf("%v, %v", h, err)
	}
}

// leftOut returns the comments of a tar.
func leftOut(t *testing.T, content []byte) (comments []string) {
	t.Helper()
	for r := tar.NewReader(bytes.NewReader(content)); ; {
		h, err := r.Next()
		if err == io.EOF {
			return comments
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeXGlobalHeader {
			comments = append(comments, h.PAXRecords["comment"])
		}
	}
}

func TestAHundredThousandEntries(t *testing.T) {
	f := newMemoryFixture(t)
	entries := make([]tarEntry, 100_000)
	for i := range entries {
		entries[i] = file(fmt.Sprintf("d%d/%d", i/1000, i), nil)
	}
	if m := f.Stream("archive.put", wire.Fields{"path": "."}).Upload(tarOf(t, entries...), 1<<20); m["type"] != "done" || m["entries"] != float64(len(entries)) {
		t.Fatal(m)
	}
	f.OK("fs.remove", wire.Fields{"path": "d7", "recursive": true}, nil)
}

func TestASparseBombIsDiskFull(t *testing.T) {
	f := newFileFixture(t)
	// A GNU 1.0 sparse entry: a map with no data in a file that claims to be 4 EiB.
	size := fmt.Sprint(int64(1) << 62)
	sparseMap := []byte("1\n" + size + "\n0\n")
	padded := append(sparseMap, make([]byte, 512-len(sparseMap))...)
	var buf bytes.Buffer
	pax := ""
	for _, r := range []string{"GNU.sparse.major=1", "GNU.sparse.minor=0", "GNU.sparse.name=bomb", "GNU.sparse.realsize=" + size} {
		pax += fmt.Sprintf("%d %s\n", len(r)+4, r)
	}
	for _, part := range []struct {
		kind    byte
		content []byte
	}{{'x', []byte(pax)}, {'0', padded}} {
		header := make([]byte, 512)
		copy(header, "bomb")
		copy(header[100:], "0000644\x000000000\x000000000\x00")
		copy(header[124:], fmt.Sprintf("%011o\x0000000000000\x00        ", len(part.content)))
		header[156] = part.kind
		copy(header[257:], "ustar\x0000")
		sum := 0
		for _, b := range header {
			sum += int(b)
		}
		copy(header[148:], fmt.Sprintf("%06o\x00 ", sum))
		buf.Write(header)
		buf.Write(part.content)
		buf.Write(make([]byte, (512-len(part.content)%512)%512))
	}
	buf.Write(make([]byte, 1024))
	if m := f.Stream("archive.put", wire.Fields{"path": "."}).Upload(buf.Bytes(), 512); m["code"] != wire.CodeDiskFull {
		t.Errorf("got %v", m)
	}
}

func TestABrokenArchiveIsAnInvalidRequest(t *testing.T) {
	f := newFileFixture(t)
	if m := f.Stream("archive.put", wire.Fields{"path": "."}).Upload(bytes.Repeat([]byte("x"), 1<<20), 4096); m["code"] != wire.CodeInvalidRequest {
		t.Errorf("got %v", m)
	}
	half := tarOf(t, file("a", make([]byte, 10_000)))[:3000]
	if m := f.Stream("archive.put", wire.Fields{"path": "."}).Upload(half, 4096); m["code"] != wire.CodeInvalidRequest {
		t.Errorf("got %v", m)
	}
}

func TestNamesOfAnyBytesAreKept(t *testing.T) {
	f := newFileFixture(t)
	names := []string{"new\nline", "not\xffutf8", "ünïcode", " space ", "-dash", "tab\t", "\x1b[31m", "..."}
	for _, name := range names {
		encoded := base64.StdEncoding.EncodeToString([]byte(name))
		f.OK("write", wire.Fields{"path_base64": encoded}, []byte(name))
		_, body := f.OK("read", wire.Fields{"path_base64": encoded}, nil)
		if string(body) != name {
			t.Errorf("%q: read %q", name, body)
		}
	}
	_, list := f.OK("fs.list", wire.Fields{"path": "."}, nil)
	var entries []files.Entry
	f.Must(json.Unmarshal(list, &entries))
	seen := map[string]bool{}
	for _, e := range entries {
		name := e.Name
		if e.NameBase64 != "" {
			raw, err := base64.StdEncoding.DecodeString(e.NameBase64)
			f.Must(err)
			name = string(raw)
		}
		seen[name] = true
	}
	for _, name := range names {
		if !seen[name] {
			t.Errorf("%q is not listed", name)
		}
	}
	out := f.Stream("archive.get", wire.Fields{"path": "."})
	in := f.Stream("archive.put", wire.Fields{"path": "copy"})
	if m := in.Upload(out.Download(), 1000); m["type"] != "done" {
		t.Fatal(m)
	}
	for _, name := range names {
		if content, err := os.ReadFile(f.Work + "/copy/" + name); err != nil || string(content) != name {
			t.Errorf("%q: %q, %v", name, content, err)
		}
	}
}
