package guest

import (
	"errors"
	"os"
	"syscall"
	"testing"

	"sandglass/runner/internal/testns"
)

func TestMaskedFoldersAreEmptyAndProtectedOnesReadOnly(t *testing.T) {
	testns.Private(t)
	dir := testns.Folder(t)
	masked, protected := testns.Dir(t, dir+"/masked"), testns.Dir(t, dir+"/protected")
	testns.File(t, masked+"/secret", "x")
	testns.File(t, protected+"/knob", "1")
	if err := mask(masked); err != nil {
		t.Fatal(err)
	}
	if entries, err := os.ReadDir(masked); err != nil || len(entries) != 0 {
		t.Errorf("the masked folder has %v, %v", entries, err)
	}
	if err := makeReadOnly(protected); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(protected+"/knob", nil, 0o644); !errors.Is(err, syscall.EROFS) {
		t.Errorf("writing: %v, want EROFS", err)
	}
	for _, hide := range []func(string) error{mask, makeReadOnly} {
		if err := hide(dir + "/none"); err != nil {
			t.Errorf("what does not exist: %v", err)
		}
	}
}

func TestSharesBelowWritableFoldersNeedNoNewRoot(t *testing.T) {
	for target, want := range map[string]bool{"/workspace/data": true, "/home/sandbox/x": true, "/tmp/x": true, "/run/x": true, "/workspace": false, "/workspaces/x": false, "/opt/data": false, "/": false} {
		if got := isWritable(target); got != want {
			t.Errorf("%s: %v", target, got)
		}
	}
}

func TestFoldersOfADiskKeepWhatTheSessionMadeOfThem(t *testing.T) {
	testns.Root(t)
	dir := t.TempDir()
	for i := 0; i < 2; i++ {
		if err := makeFolders(dir, []folder{{"/workspace", 0o755, sandboxID}, {"/tmp", 0o1777, 0}}); err != nil {
			t.Fatal(err)
		}
		want := map[string][2]uint32{"/workspace": {0o755, sandboxID}, "/tmp": {0o1777, 0}}
		if i == 1 {
			want["/workspace"] = [2]uint32{0o700, 5}
		}
		for path, w := range want {
			st := &syscall.Stat_t{}
			if err := syscall.Stat(dir+path, st); err != nil || st.Mode&0o7777 != w[0] || st.Uid != w[1] {
				t.Errorf("time %d, %s: mode %o, owner %d, %v", i+1, path, st.Mode, st.Uid, err)
			}
		}
		os.Chmod(dir+"/workspace", 0o700)
		os.Chown(dir+"/workspace", 5, 5)
	}
	// SECURITY: what the session left in the place of a folder is not followed.
	if err := os.Symlink("/etc", dir+"/home"); err != nil {
		t.Fatal(err)
	}
	if err := makeFolders(dir, []folder{{"/home", 0o755, 0}}); err == nil {
		t.Error("a link was taken for a folder")
	}
}

func TestNameFilesAreWrittenToEachFolder(t *testing.T) {
	first, second := t.TempDir(), t.TempDir()
	if err := writeNames(map[string]string{"hosts": "h", "other": "x"}, first, second); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{first, second} {
		if testns.Content(t, dir+"/hosts") != "h" || testns.Content(t, dir+"/hostname") != "" {
			t.Errorf("%s has other contents", dir)
		}
		if _, err := os.Stat(dir + "/other"); !os.IsNotExist(err) {
			t.Errorf("a file that is no name file was written: %v", err)
		}
	}
}
