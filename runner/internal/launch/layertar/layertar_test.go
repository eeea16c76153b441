package layertar

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"sandglass/runner/internal/testns"
)

func sameOwner(uid, gid uint32) (int, int) { return int(uid), int(gid) }

func settings() Settings {
	return Settings{MaxEntries: 1000, MaxBytes: 1 << 20, Owner: sameOwner, IsUpper: true}
}

// entries writes a folder as a layer and lists the tar, one line per entry.
func entries(t *testing.T, folder string, s Settings) ([]string, error) {
	t.Helper()
	out := &bytes.Buffer{}
	w := New(out, s)
	if err := w.Tree(folder, ""); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	var lines []string
	archive := tar.NewReader(out)
	for {
		h, err := archive.Next()
		if err == io.EOF {
			return lines, nil
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, fmt.Sprintf("%c %o %q %q %q", h.Typeflag, h.Mode, h.Name, h.Linkname, content))
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestAnUpperLayerIsWrittenWithWhiteoutsModesAndLinks(t *testing.T) {
	testns.Root(t)
	dir := t.TempDir()
	must(t, os.Mkdir(dir+"/opaque", 0o755))
	must(t, syscall.Setxattr(dir+"/opaque", "trusted.overlay.opaque", []byte("y"), 0))
	must(t, os.WriteFile(dir+"/opaque/new\nline", []byte("x"), 0o644))
	must(t, os.WriteFile(dir+"/setuid", []byte("s"), 0o755))
	must(t, syscall.Chmod(dir+"/setuid", 0o4755))
	must(t, os.Link(dir+"/setuid", dir+"/twin"))
	must(t, os.Symlink("/etc/shadow", dir+"/link"))
	must(t, syscall.Mknod(dir+"/gone", syscall.S_IFCHR, 0))
	must(t, syscall.Mknod(dir+"/device", syscall.S_IFCHR|0o666, 1<<8|3))
	must(t, syscall.Mkfifo(dir+"/pipe", 0o600))
	got, err := entries(t, dir, settings())
	must(t, err)
	want := []string{
		`0 0 ".wh.gone" "" ""`,
		`2 777 "link" "/etc/shadow" ""`,
		`5 755 "opaque/" "" ""`,
		`0 0 "opaque/.wh..wh..opq" "" ""`,
		`0 644 "opaque/new\nline" "" "x"`,
		`6 600 "pipe" "" ""`,
		`0 4755 "setuid" "" "s"`,
		`1 4755 "twin" "setuid" ""`,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestExcludedPathsAndTheCertificateAreLeftOut(t *testing.T) {
	dir := t.TempDir()
	const pem = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----"
	must(t, os.MkdirAll(dir+"/etc/ssl", 0o755))
	must(t, os.WriteFile(dir+"/etc/resolv.conf", []byte("ours"), 0o644))
	must(t, os.WriteFile(dir+"/etc/ssl/bundle.pem", []byte("first\n"+pem+"\nlast\n"), 0o644))
	s := settings()
	s.Excluded, s.Certificate = map[string]bool{"etc/resolv.conf": true}, pem+"\n"
	got, err := entries(t, dir, s)
	must(t, err)
	want := []string{`5 755 "etc/" "" ""`, `5 755 "etc/ssl/" "" ""`, `0 644 "etc/ssl/bundle.pem" "" "first\nlast\n"`}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestWhatALayerCannotHaveIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		code string
		make func(dir string, s *Settings) error
	}{
		"a name like a whiteout": {CodeInvalid, func(dir string, _ *Settings) error {
			return os.WriteFile(dir+"/.wh.x", nil, 0o644)
		}},
		"too many files": {CodeManyEntries, func(dir string, s *Settings) error {
			s.MaxEntries = 2
			for i := 0; i < 3; i++ {
				if err := os.WriteFile(fmt.Sprintf("%s/%d", dir, i), nil, 0o644); err != nil {
					return err
				}
			}
			return nil
		}},
		"a sparse file that is too long": {CodeManyBytes, func(dir string, _ *Settings) error {
			if err := os.WriteFile(dir+"/sparse", nil, 0o644); err != nil {
				return err
			}
			return os.Truncate(dir+"/sparse", 1<<40)
		}},
		"folders that are too deep": {CodeInvalid, func(dir string, _ *Settings) error {
			return os.MkdirAll(dir+strings.Repeat("/d", maxLevels+2), 0o755)
		}},
		"a path that is too long": {CodeInvalid, func(dir string, _ *Settings) error {
			return os.MkdirAll(dir+strings.Repeat("/"+strings.Repeat("n", 250), 13), 0o755)
		}},
	} {
		dir, s := t.TempDir(), settings()
		must(t, c.make(dir, &s))
		_, err := entries(t, dir, s)
		var refused *Refusal
		if !errors.As(err, &refused) || refused.Code != c.code {
			t.Errorf("%s: got %v, want %s", name, err, c.code)
		}
	}
}

func TestFilesOfTheHostAreThoseThatEverybodyMayRead(t *testing.T) {
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "public"), nil, 0o644))
	must(t, os.WriteFile(filepath.Join(dir, "secret"), nil, 0o600))
	must(t, os.Mkdir(filepath.Join(dir, "closed"), 0o700))
	s := settings()
	s.PublicOnly, s.IsUpper = true, false
	got, err := entries(t, dir, s)
	must(t, err)
	if want := []string{`0 644 "public" "" ""`}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
