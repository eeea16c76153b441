package hostdir

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"sandglass/runner/internal/testns"
)

// fixture makes a folder of user 1000 with a file in it, and an empty root filesystem.
func fixture(t *testing.T) (source, rootfs string) {
	t.Helper()
	dir := testns.Folder(t)
	source, rootfs = testns.Dir(t, dir+"/source"), testns.Dir(t, dir+"/rootfs")
	file := testns.File(t, source+"/file", "content")
	for _, path := range []string{source, file} {
		if err := os.Chown(path, 1000, 1000); err != nil {
			t.Fatal(err)
		}
	}
	return source, rootfs
}

func attach(t *testing.T, rootfs string, folders ...Folder) error {
	t.Helper()
	opened, err := Open(folders)
	if err != nil {
		return err
	}
	defer func() {
		for _, o := range opened {
			o.Tree.Close()
		}
	}()
	return Attach(rootfs, opened)
}

func owner(t *testing.T, path string) [2]uint32 {
	t.Helper()
	st := &syscall.Stat_t{}
	if err := syscall.Lstat(path, st); err != nil {
		t.Fatal(err)
	}
	return [2]uint32{st.Uid, st.Gid}
}

func TestAFolderIsReadOnlyAndItsMountPointIsMade(t *testing.T) {
	testns.Private(t)
	source, rootfs := fixture(t)
	if err := attach(t, rootfs, Folder{Source: source, Target: "/opt/in/data", Readonly: true, PointUID: 5, PointGID: 6}); err != nil {
		t.Fatal(err)
	}
	target := filepath.Join(rootfs, "opt/in/data")
	if got := testns.Content(t, target+"/file"); got != "content" {
		t.Errorf("the file holds %q", got)
	}
	if err := os.WriteFile(target+"/file", nil, 0o644); !errors.Is(err, syscall.EROFS) {
		t.Errorf("writing: %v, want EROFS", err)
	}
	if got := owner(t, filepath.Join(rootfs, "opt/in")); got != [2]uint32{5, 6} {
		t.Errorf("the mount point belongs to %v", got)
	}
}

// SECURITY: a sandbox must not get a folder of root as its own.
func TestAFolderOfRootIsNeverWritable(t *testing.T) {
	testns.Private(t)
	source, rootfs := fixture(t)
	for name, c := range map[string]struct{ uid, gid, shown int }{
		"root's":          {0, 1000, 300_000},
		"root's group's":  {1000, 0, 300_000},
		"without idmaps":  {1000, 1000, 0},
		"root's, at root": {0, 0, 0},
	} {
		if err := os.Chown(source, c.uid, c.gid); err != nil {
			t.Fatal(err)
		}
		err := attach(t, rootfs, Folder{Source: source, Target: "/data", UID: c.shown, GID: c.shown})
		if err == nil || !strings.Contains(err.Error(), "cannot be writable") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTheOwnerIsShownAsTheSandboxsUser(t *testing.T) {
	testns.Private(t)
	source, rootfs := fixture(t)
	other := testns.File(t, source+"/others", "")
	if err := os.Chown(other, 1234, 1234); err != nil {
		t.Fatal(err)
	}
	if err := attach(t, rootfs, Folder{Source: source, Target: "/data", UID: 300_000, GID: 300_001}); err != nil {
		t.Skipf("no idmapped mounts on this filesystem: %v", err)
	}
	target := filepath.Join(rootfs, "data")
	if got := owner(t, target+"/file"); got != [2]uint32{300_000, 300_001} {
		t.Errorf("the file belongs to %v", got)
	}
	if got := owner(t, target+"/others"); got != [2]uint32{65534, 65534} {
		t.Errorf("another user's file belongs to %v", got)
	}
}

// SECURITY: between the daemon's check and the mount, the folder may be replaced by a link.
func TestALinkInTheSourceIsRefused(t *testing.T) {
	testns.Private(t)
	source, rootfs := fixture(t)
	link := source + "-link"
	if err := os.Symlink(source, link); err != nil {
		t.Fatal(err)
	}
	testns.Dir(t, source+"/inner")
	for _, path := range []string{link, link + "/inner", source + "/none", source + "/file"} {
		if err := attach(t, rootfs, Folder{Source: path, Target: "/data", Readonly: true}); err == nil || !strings.Contains(err.Error(), "is gone, or its path contains a link") {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// SECURITY: the sandbox may have left links in its root filesystem.
func TestALinkInTheTargetIsRefused(t *testing.T) {
	testns.Private(t)
	source, rootfs := fixture(t)
	outside := testns.Dir(t, filepath.Dir(rootfs)+"/outside")
	for name, target := range map[string]string{"absolute": outside, "relative": "../outside"} {
		if err := os.Symlink(target, filepath.Join(rootfs, name)); err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{"/" + name, "/" + name + "/data"} {
			if err := attach(t, rootfs, Folder{Source: source, Target: path, Readonly: true}); !errors.Is(err, syscall.ELOOP) {
				t.Errorf("%s: %v, want ELOOP", path, err)
			}
		}
	}
	if entries, err := os.ReadDir(outside); err != nil || len(entries) != 0 {
		t.Errorf("outside the root filesystem: %v, %v", entries, err)
	}
}

func TestFoldersAreMountedInsideEachOther(t *testing.T) {
	testns.Private(t)
	source, rootfs := fixture(t)
	inner := testns.Dir(t, filepath.Dir(source)+"/inner")
	testns.File(t, inner+"/deep", "deep")
	testns.Dir(t, source+"/point")
	err := attach(t, rootfs, Folder{Source: source, Target: "/data", Readonly: true}, Folder{Source: inner, Target: "/data/point", Readonly: true})
	if err != nil {
		t.Fatal(err)
	}
	if got := testns.Content(t, filepath.Join(rootfs, "data/point/deep")); got != "deep" {
		t.Errorf("got %q", got)
	}
}
