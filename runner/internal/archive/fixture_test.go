package archive

import (
	"archive/tar"
	"bytes"
	"testing"

	"sandglass/runner/internal/config"
	"sandglass/runner/internal/files"
	"sandglass/runner/internal/runnertest"
	"sandglass/runner/internal/wire"
)

func newFileFixture(t *testing.T) *runnertest.Files {
	t.Helper()
	return runnertest.OpenFiles(t, t.TempDir(), files.Handlers, streams)
}

// newMemoryFixture is for tests with very many files, which would measure the disk otherwise.
func newMemoryFixture(t *testing.T) *runnertest.Files {
	t.Helper()
	return runnertest.OpenFiles(t, runnertest.MemoryFolder(t), files.Handlers, streams)
}

// streams are the stream requests of files and archives.
func streams(cfg *config.Config) map[string]wire.StreamHandler {
	all := files.Streams(cfg)
	for kind, handler := range Streams(cfg) {
		all[kind] = handler
	}
	return all
}

type tarEntry struct {
	tar.Header
	content []byte
}

func file(name string, content []byte) tarEntry {
	return tarEntry{tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(content))}, content}
}

func link(kind byte, name, target string) tarEntry {
	return tarEntry{tar.Header{Typeflag: kind, Name: name, Linkname: target, Mode: 0o777}, nil}
}

func tarOf(t *testing.T, entries ...tarEntry) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for i := range entries {
		if err := w.WriteHeader(&entries[i].Header); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(entries[i].content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}
