package runnertest

import (
	"os"
	"path/filepath"
	"testing"
)

// AddGoldens adds the golden files to the seeds of a fuzz test.
func AddGoldens(f *testing.F) {
	files, err := filepath.Glob("../../testdata/*.bin")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
}
