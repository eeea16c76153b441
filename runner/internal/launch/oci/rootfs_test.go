package oci

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"sandglass/runner/internal/launch/disk"
	"sandglass/runner/internal/launch/hostdir"
	"sandglass/runner/internal/launch/mount"
	"sandglass/runner/internal/testns"
)

func image(t *testing.T) (string, *stack) {
	t.Helper()
	dir := testns.Folder(t)
	base := testns.Dir(t, dir+"/images")
	testns.Dir(t, base+"/empty")
	testns.File(t, testns.Dir(t, base+"/low/etc")+"/passwd", "low")
	testns.File(t, base+"/low/etc/group", "group")
	testns.File(t, testns.Dir(t, base+"/high/etc")+"/passwd", "high")
	return dir, &stack{Base: base, Names: []string{"high", "low", "empty"}}
}

func TestFindResolvesPathsInsideTheImage(t *testing.T) {
	testns.Private(t)
	dir, s := image(t)
	testns.File(t, dir+"/secret", "secret")
	for name, target := range map[string]string{"etc/link": "/etc/passwd", "etc/out": "../../../../" + dir + "/secret", "etc/dangling": "/none", "etc/loop": "loop"} {
		if err := os.Symlink(target, filepath.Join(s.Base, "high", name)); err != nil {
			t.Fatal(err)
		}
	}
	testns.File(t, s.Base+"/high/etc/large", strings.Repeat("x", maxFoundBytes+1))
	if err := syscall.Mkfifo(s.Base+"/high/etc/pipe", 0o644); err != nil {
		t.Fatal(err)
	}
	testns.File(t, testns.Dir(t, s.Base+"/low/jvm/b/lib")+"/cacerts", "b")
	testns.Dir(t, s.Base+"/high/jvm/a/lib")
	testns.Dir(t, s.Base+"/high/jvm/d/lib")
	for name, target := range map[string]string{"jvm/a/lib/cacerts": "/etc/link", "jvm/c": "b", "etc/jvm": "../jvm"} {
		if err := os.Symlink(target, filepath.Join(s.Base, "high", name)); err != nil {
			t.Fatal(err)
		}
	}
	paths := map[string]found{
		"/etc/passwd": fileAt("/etc/passwd", "high"), "/etc/group": fileAt("/etc/group", "group"),
		"/etc/link": fileAt("/etc/passwd", "high"), "/": {Kind: "folder", Path: "/"},
		"/etc": {Kind: "folder", Path: "/etc"}, "/etc/pipe": {Kind: "other", Path: "/etc/pipe"}, "/etc/large": {Kind: "file", Path: "/etc/large"},
		"/none": {}, "/etc/out": {}, "/etc/dangling": {}, "/etc/loop": {}, "/../../etc/group": fileAt("/etc/group", "group"),
	}
	j := &findJob{Stack: *s, Folder: testns.Dir(t, dir+"/mounted"), Paths: []string{"/none/*/x", "/etc/jvm/*/lib/cacerts"}}
	for path := range paths {
		j.Paths = append(j.Paths, path)
	}
	paths["/etc/jvm/a/lib/cacerts"] = fileAt("/etc/passwd", "high")
	paths["/etc/jvm/b/lib/cacerts"] = fileAt("/jvm/b/lib/cacerts", "b")
	paths["/etc/jvm/c/lib/cacerts"] = fileAt("/jvm/b/lib/cacerts", "b")
	got, err := find(j)
	if err != nil {
		t.Skipf("no overlay on this filesystem: %v", err)
	}
	if len(got) != len(paths) {
		t.Errorf("got %d paths, want %d", len(got), len(paths))
	}
	for path, want := range paths {
		if got[path].Kind != want.Kind || got[path].Path != want.Path || !bytes.Equal(got[path].Content, want.Content) {
			t.Errorf("%s: got %+v, want %+v", path, got[path], want)
		}
	}
}

func fileAt(path, content string) found {
	return found{Kind: "file", Path: path, Content: []byte(content)}
}

func TestFindReturnsABoundedAmountOfContent(t *testing.T) {
	testns.Private(t)
	dir, s := image(t)
	j := &findJob{Stack: *s, Folder: testns.Dir(t, dir+"/mounted")}
	for n := 0; n < 12; n++ {
		name := fmt.Sprintf("/etc/large%d", n)
		testns.File(t, s.Base+"/high"+name, strings.Repeat("x", maxFoundBytes))
		j.Paths = append(j.Paths, name)
	}
	got, err := find(j)
	if err != nil {
		t.Skipf("no overlay on this filesystem: %v", err)
	}
	total := 0
	for _, each := range got {
		total += len(each.Content)
	}
	if total != maxFoundTotalBytes || len(got) != 12 {
		t.Errorf("got %d bytes of %d files", total, len(got))
	}
}

func TestAStackRefusesALayerThatIsALink(t *testing.T) {
	testns.Private(t)
	dir, s := image(t)
	if err := os.Symlink("/etc", s.Base+"/link"); err != nil {
		t.Fatal(err)
	}
	target, err := mount.Open(testns.Dir(t, dir+"/target"))
	if err != nil {
		t.Fatal(err)
	}
	defer target.Close()
	for name, want := range map[string]error{"link": syscall.ENOTDIR, "none": syscall.ENOENT, "../images/low": syscall.EXDEV} {
		bad := stack{Base: s.Base, Names: []string{name, "low"}}
		err := bad.mount(target, nil, "", "")
		if err == nil || !errors.Is(err, want) && !errors.Is(err, syscall.ELOOP) {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
	}
}

func TestAMissingMountPointIsAddedAboveAReadOnlyImage(t *testing.T) {
	testns.Private(t)
	dir, s := image(t)
	if err := os.Chmod(s.Base+"/high/etc", 0o711); err != nil {
		t.Fatal(err)
	}
	source := testns.Dir(t, dir+"/source")
	testns.File(t, source+"/file", "from the host")
	j := &startJob{Rootfs: testns.Dir(t, dir+"/rootfs"), Layers: []layer{{Target: "/", Stack: s}},
		Folders: []hostdir.Folder{{Source: source, Target: "/etc/deep/data", Readonly: true, PointUID: 7, PointGID: 8}}}
	mounted := testns.Dir(t, dir+"/disk")
	folders, err := hostdir.Open(j.Folders)
	if err != nil {
		t.Fatal(err)
	}
	if err := buildRootfs(j, mounted, nil, folders); err != nil {
		t.Skipf("no overlay on this filesystem: %v", err)
	}
	if got := testns.Content(t, j.Rootfs+"/etc/deep/data/file"); got != "from the host" {
		t.Errorf("got %q", got)
	}
	if got := testns.Content(t, j.Rootfs+"/etc/passwd"); got != "high" {
		t.Errorf("the image shows %q", got)
	}
	st := &syscall.Stat_t{}
	if err := syscall.Stat(j.Rootfs+"/etc", st); err != nil || st.Mode&0o777 != 0o711 {
		t.Errorf("/etc has mode %o, %v", st.Mode, err)
	}
	if err := syscall.Stat(j.Rootfs+"/etc/deep", st); err != nil || st.Uid != 7 || st.Gid != 8 {
		t.Errorf("the mount point belongs to %d:%d, %v", st.Uid, st.Gid, err)
	}
}

func TestTheLayerOfAPathIsTheInnermost(t *testing.T) {
	j := &startJob{Layers: []layer{{Target: "/"}, {Target: "/usr"}, {Target: "/usr/lib"}}, Disk: disk.Disk{Binds: []disk.Bind{
		{Target: "/workspace", Saved: true}, {Target: "/etc/hosts"}}}}
	for path, want := range map[string]int{"/data": 0, "/usr/x": 1, "/usr/lib/y": 2, "/usr/library": 1, "/workspace": -1, "/workspace/a": -1, "/workspaces": 0, "/etc/hosts": 0} {
		if got := j.layerOf(path); got != want {
			t.Errorf("%s: got %d, want %d", path, got, want)
		}
	}
}
