package files

import (
	"testing"

	"sandglass/runner/internal/runnertest"
)

func newFileFixture(t *testing.T) *runnertest.Files {
	t.Helper()
	return runnertest.OpenFiles(t, t.TempDir(), Handlers, Streams)
}

// newMemoryFixture is for tests with very many files, which would measure the disk otherwise.
func newMemoryFixture(t *testing.T) *runnertest.Files {
	t.Helper()
	return runnertest.OpenFiles(t, runnertest.MemoryFolder(t), Handlers, Streams)
}
