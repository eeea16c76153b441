package unpack

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func deepFiles(count, depth int) []entry {
	entries := make([]entry, count)
	for i := range entries {
		entries[i] = file(fmt.Sprintf("%d/%sf", i, strings.Repeat("d/", depth)), "")
	}
	return entries
}

func nodesIn(t *testing.T, top string) int {
	t.Helper()
	count := -1
	err := filepath.WalkDir(top, func(_ string, _ fs.DirEntry, err error) error {
		count++
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return count
}

func TestFoldersThatAreOnlyImpliedCountAsEntries(t *testing.T) {
	layer := layerOf(t, deepFiles(20, 100)...)
	top, r := unpackIn(t, t.TempDir(), layer, "--max-entries", "300")
	if r.Code != codeManyEntries {
		t.Errorf("more folders than entries: %+v", r)
	}
	if made := nodesIn(t, top); made > 300 {
		t.Errorf("it made %d nodes", made)
	}
	if _, r := unpackIn(t, t.TempDir(), layerOf(t, file("a/b/c", "")), "--max-entries", "3"); !r.Ok || r.Entries != 3 {
		t.Errorf("two folders and a file: %+v", r)
	}
}

func TestEverythingThatIsMadeTakesBytes(t *testing.T) {
	layers := map[string][]entry{"folders": deepFiles(5, 100), "links": nil, "whiteouts": nil, "empty files": nil}
	for i := 0; i < 300; i++ {
		layers["links"] = append(layers["links"], symlink(fmt.Sprint(i), "/"))
		layers["whiteouts"] = append(layers["whiteouts"], file(fmt.Sprintf(".wh.%d", i), ""))
		layers["empty files"] = append(layers["empty files"], file(fmt.Sprint(i), ""))
	}
	for name, entries := range layers {
		top, r := unpackIn(t, t.TempDir(), layerOf(t, entries...), "--max-bytes", "1000000")
		if r.Code != codeManyBytes {
			t.Errorf("%s: %+v", name, r)
		}
		if made := nodesIn(t, top); made > 1_000_000/4096 {
			t.Errorf("%s: it made %d nodes", name, made)
		}
	}
}

func TestALayerOfNoContentLeavesRoom(t *testing.T) {
	if _, r := unpackIn(t, t.TempDir(), layerOf(t, folder("a")), "--reserve-bytes", "9000000000000000"); r.Code != "full" {
		t.Errorf("no room at the end: %+v", r)
	}
	top, r := unpackIn(t, t.TempDir(), layerOf(t, deepFiles(50, 100)...), "--reserve-bytes", "9000000000000000", "--max-entries", "10000")
	if r.Code != "full" {
		t.Errorf("no room: %+v", r)
	}
	if made := nodesIn(t, top); made > 3000 {
		t.Errorf("it made %d nodes", made)
	}
}

func TestADiskHasInodesLeftAfterALayer(t *testing.T) {
	disk := t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "nr_inodes=1000"); err != nil {
		t.Skipf("no disk of its own: %v", err)
	}
	defer func() {
		if err := syscall.Unmount(disk, 0); err != nil {
			t.Error(err)
		}
	}()
	for count, want := range map[int]string{900: "", 990: "full"} {
		files := make([]entry, count)
		for i := range files {
			files[i] = file(fmt.Sprint(i), "")
		}
		parent, err := os.MkdirTemp(disk, "")
		if err != nil {
			t.Fatal(err)
		}
		if _, r := unpackIn(t, parent, layerOf(t, files...)); r.Code != want {
			t.Errorf("%d files of 1000: %+v", count, r)
		}
		if err := os.RemoveAll(parent); err != nil {
			t.Fatal(err)
		}
	}
}

func TestPathsAreNeitherTooDeepNorTooLong(t *testing.T) {
	part := strings.Repeat("n", 200) + "/"
	layers := map[string][]entry{
		"deep":      {file(strings.Repeat("d/", 300)+"f", "")},
		"long":      {file(strings.Repeat(part, 18)+"f", "")},
		"deep link": {folder(strings.Repeat("d/", 200)), symlink("l", strings.Repeat("d/", 200)), file("l/"+strings.Repeat("e/", 200)+"f", "")},
		"long link": {folder(strings.Repeat(part, 10)), symlink("l", strings.Repeat(part, 10)), folder("l/" + strings.Repeat(part, 10))},
	}
	for name, entries := range layers {
		if _, r := unpackIn(t, t.TempDir(), layerOf(t, entries...)); r.Code != "invalid" {
			t.Errorf("%s: %+v", name, r)
		}
	}
	unpacked(t, file(strings.Repeat("d/", 250)+"f", ""), file(strings.Repeat(part, 14)+"f", ""))
}
