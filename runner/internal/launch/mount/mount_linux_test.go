package mount

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"sandglass/runner/internal/testns"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestAMountPointIsNeverReachedThroughALink(t *testing.T) {
	rootfs := t.TempDir()
	for _, dir := range []string{"home/sandbox", "elsewhere/sandbox"} {
		if err := os.MkdirAll(filepath.Join(rootfs, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	links := map[string]string{"inside": "elsewhere", "outside": "/", "last": "home"}
	for name, target := range links {
		if err := os.Symlink(target, filepath.Join(rootfs, name)); err != nil {
			t.Fatal(err)
		}
	}
	held, err := OpenPoint(rootfs, "/home/sandbox")
	if err != nil {
		t.Fatal(err)
	}
	held.Close()
	for _, target := range []string{"/inside/sandbox", "/outside/tmp", "/last"} {
		if held, err := OpenPoint(rootfs, target); !errors.Is(err, syscall.ELOOP) {
			held.Close()
			t.Errorf("%s: got %v, want ELOOP", target, err)
		}
	}
}

func TestABindMountHasItsAttributes(t *testing.T) {
	testns.Private(t)
	dir := testns.Folder(t)
	source, target := testns.Dir(t, dir+"/source"), testns.Dir(t, dir+"/target")
	testns.File(t, source+"/file", "content")
	if err := syscall.Mknod(source+"/null", syscall.S_IFCHR|0o666, 1<<8|3); err != nil {
		t.Fatal(err)
	}
	at := open(t, target)
	if err := Bind(source, at, Readonly|Nodev|Noexec, false); err != nil {
		t.Fatal(err)
	}
	if got := testns.Content(t, target+"/file"); got != "content" {
		t.Errorf("the file holds %q", got)
	}
	if err := os.WriteFile(target+"/file", nil, 0o644); !errors.Is(err, syscall.EROFS) {
		t.Errorf("writing: %v, want EROFS", err)
	}
	if _, err := os.Open(target + "/null"); !errors.Is(err, syscall.EACCES) {
		t.Errorf("opening a device: %v, want EACCES", err)
	}
	if err := os.WriteFile(source+"/file", []byte("changed"), 0o644); err != nil {
		t.Errorf("the source became read-only: %v", err)
	}
}

func TestOnlyARecursiveCloneHasTheMountsBelow(t *testing.T) {
	testns.Private(t)
	dir := testns.Folder(t)
	inner := testns.Dir(t, dir+"/source/inner")
	if err := syscall.Mount("tmpfs", inner, "tmpfs", 0, ""); err != nil {
		t.Fatal(err)
	}
	testns.File(t, inner+"/file", "x")
	for recursive, want := range map[bool]error{true: nil, false: os.ErrNotExist} {
		target := testns.Dir(t, filepath.Join(dir, map[bool]string{true: "with", false: "without"}[recursive]))
		if err := Bind(dir+"/source", open(t, target), Readonly, recursive); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(target + "/inner/file"); !errors.Is(err, want) {
			t.Errorf("recursive %v: %v, want %v", recursive, err, want)
		}
	}
	// SECURITY: the attributes hold for the mounts below, too.
	if err := os.WriteFile(dir+"/with/inner/file", nil, 0o644); !errors.Is(err, syscall.EROFS) {
		t.Errorf("writing to the mount below: %v, want EROFS", err)
	}
}

func TestBelowListsMountsByTheirRealNames(t *testing.T) {
	testns.Private(t)
	dir := testns.Folder(t)
	file := testns.File(t, dir+"/file", "")
	for _, name := range []string{"/a", "/a/b c", "/a/tab\there", `/a/back\slash`} {
		testns.Dir(t, dir+name)
		if err := syscall.Mount("tmpfs", dir+name, "tmpfs", 0, ""); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mount(file, file, "", syscall.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	got, err := Below(dir)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"/a", "/a/b c", "/a/tab\there", `/a/back\slash`}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, err := Below(dir + "/a/b"); err != nil || len(got) != 0 {
		t.Errorf("a name that is the beginning of another: %q, %v", got, err)
	}
}

func TestCoverHidesAFolderAndSetReadonlyProtectsAMount(t *testing.T) {
	testns.Private(t)
	dir := testns.Folder(t)
	hidden := testns.Dir(t, dir+"/hidden")
	testns.File(t, hidden+"/secret", "x")
	if err := Cover([]string{hidden}); err != nil {
		t.Fatal(err)
	}
	if entries, err := os.ReadDir(hidden); err != nil || len(entries) != 0 {
		t.Errorf("the covered folder shows %v, %v", entries, err)
	}
	if err := SetReadonly([]string{dir}, true); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir+"/file", nil, 0o644); !errors.Is(err, syscall.EROFS) {
		t.Errorf("while read-only: %v, want EROFS", err)
	}
	if err := SetReadonly([]string{dir}, false); err != nil {
		t.Fatal(err)
	}
	testns.File(t, dir+"/file", "x")
	if err := SetReadonly([]string{hidden + "/none"}, true); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a path that does not exist: %v", err)
	}
}

func TestAnOverlayNamesItsLayersByDescriptorAndFollowsNoRedirect(t *testing.T) {
	testns.Private(t)
	dir := testns.Folder(t)
	for name, content := range map[string]string{"upper": "upper", "lower": "lower"} {
		testns.File(t, testns.Dir(t, filepath.Join(dir, name))+"/file", content)
	}
	testns.File(t, dir+"/lower/below", "below")
	target := testns.Dir(t, dir+"/target")
	upper, lower := open(t, dir+"/upper"), open(t, dir+"/lower")
	if err := Overlay(open(t, target), "lowerdir="+upper.Path()+":"+lower.Path()); err != nil {
		t.Skipf("no overlay on this filesystem: %v", err)
	}
	if got := testns.Content(t, target+"/file") + testns.Content(t, target+"/below"); got != "upperbelow" {
		t.Errorf("the overlay shows %q", got)
	}
	mounts := testns.Content(t, "/proc/thread-self/mountinfo")
	_, options, found := strings.Cut(mounts, " "+target+" ")
	line, _, _ := strings.Cut(options, "\n")
	if !found || strings.Contains(line, dir) || !strings.Contains(line, "redirect_dir=nofollow") {
		t.Errorf("the mount tells %q", line)
	}
}

func TestATreeIsAttachedInAnotherMountNamespace(t *testing.T) {
	testns.Private(t)
	dir := testns.Folder(t)
	testns.File(t, dir+"/own", "own")
	target := testns.File(t, dir+"/target", "host")
	child := exec.Command("unshare", "--mount", "--propagation", "private", "cat")
	input, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Skipf("no unshare: %v", err)
	}
	defer child.Wait()
	defer input.Close()
	own := namespaceID(t, "self")
	deadline := time.Now().Add(10 * time.Second)
	for namespaceID(t, strconv.Itoa(child.Process.Pid)) == own {
		if time.Now().After(deadline) {
			t.Fatal("the child has no mount namespace of its own")
		}
	}
	tree, err := Clone(dir+"/own", false)
	if err != nil {
		t.Fatal(err)
	}
	defer tree.Close()
	namespace, err := os.Open("/proc/" + strconv.Itoa(child.Process.Pid) + "/ns/mnt")
	if err != nil {
		t.Fatal(err)
	}
	defer namespace.Close()
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		done <- tree.AttachIn(namespace, target)
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if got := testns.Content(t, "/proc/"+strconv.Itoa(child.Process.Pid)+"/root"+target); got != "own" {
		t.Errorf("in the other namespace it is %q", got)
	}
	if got := testns.Content(t, target); got != "host" {
		t.Errorf("here it is %q", got)
	}
}

func namespaceID(t *testing.T, pid string) string {
	t.Helper()
	path := "/proc/" + pid + "/ns/mnt"
	if pid == "self" {
		path = "/proc/thread-self/ns/mnt"
	}
	link, err := os.Readlink(path)
	if err != nil {
		t.Fatal(err)
	}
	return link
}

func TestOpeningRefusesLinks(t *testing.T) {
	dir := t.TempDir()
	testns.Dir(t, dir+"/real/inner")
	for name, target := range map[string]string{"link": "real", "out": "/etc"} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	base := open(t, dir)
	for name, want := range map[string]error{"real/inner": nil, "link/inner": syscall.ELOOP, "out": syscall.ELOOP, "real/../../x": syscall.EXDEV, "none": syscall.ENOENT} {
		h, err := OpenBelow(base, name)
		if !errors.Is(err, want) {
			t.Errorf("below, %s: %v, want %v", name, err, want)
		}
		if err == nil {
			h.Close()
		}
	}
	for name, want := range map[string]error{"real/inner": nil, "link/inner": syscall.ELOOP, "link": syscall.ELOOP} {
		h, err := OpenFolder(filepath.Join(dir, name))
		if !errors.Is(err, want) {
			t.Errorf("folder, %s: %v, want %v", name, err, want)
		}
		if err == nil {
			h.Close()
		}
	}
}

func TestEnsureDirKeepsAFolderThatExists(t *testing.T) {
	testns.Root(t)
	path := t.TempDir() + "/folder"
	for i, want := range []uint32{0o750, 0o750} {
		if err := EnsureDir(path, 1000, 1001, os.FileMode(0o750>>uint(i*3))); err != nil {
			t.Fatal(err)
		}
		st := &syscall.Stat_t{}
		if err := syscall.Stat(path, st); err != nil || st.Mode&0o777 != want || st.Uid != 1000 || st.Gid != 1001 {
			t.Errorf("call %d: mode %o, owner %d:%d, %v", i, st.Mode, st.Uid, st.Gid, err)
		}
	}
}

func open(t *testing.T, path string) Handle {
	t.Helper()
	h, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	return h
}
