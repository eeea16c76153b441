package guest

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

func TestFilesThatNoListNamesAreHiddenByTheirMode(t *testing.T) {
	proc := t.TempDir()
	for name, mode := range map[string]os.FileMode{"version": 0o444, "slabs": 0o400, "knob": 0o644, "named": 0o600, "17": 0o600} {
		if err := os.WriteFile(filepath.Join(proc, name), nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"debug", "known", "18"} {
		if err := os.Mkdir(filepath.Join(proc, name), 0o555); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("17", filepath.Join(proc, "self")); err != nil {
		t.Fatal(err)
	}
	found, err := unlisted(proc, []string{"/proc/named", "/proc/known", "/proc/not-there"})
	if err != nil {
		t.Fatal(err)
	}
	if want := (&hidden{masked: []string{"/proc/knob", "/proc/slabs"}, readOnly: []string{"/proc/debug"}}); !reflect.DeepEqual(found, want) {
		t.Errorf("%+v", found)
	}
}
