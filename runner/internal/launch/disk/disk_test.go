package disk

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"sandglass/runner/internal/launch/pidfd"
	"sandglass/runner/internal/testns"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "hold-disk" {
		fmt.Fprintln(os.Stderr, Hold())
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func TestASparseCopyHasTheContentAndTheHoles(t *testing.T) {
	dir := t.TempDir()
	source, target := dir+"/source", dir+"/target"
	file, err := os.Create(source)
	if err != nil {
		t.Fatal(err)
	}
	for at, text := range map[int64]string{0: "start", 8 << 20: "middle", 16<<20 - 3: "end"} {
		if _, err := file.WriteAt([]byte(text), at); err != nil {
			t.Fatal(err)
		}
	}
	if err := file.Truncate(24 << 20); err != nil {
		t.Fatal(err)
	}
	file.Close()
	if err := copySparse(source, target); err != nil {
		t.Fatal(err)
	}
	want, _ := os.ReadFile(source)
	got, err := os.ReadFile(target)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("the copy differs: %d bytes of %d, %v", len(got), len(want), err)
	}
	st := &syscall.Stat_t{}
	if err := syscall.Stat(target, st); err != nil || st.Blocks*512 > 1<<20 || st.Mode&0o777 != 0o600 {
		t.Errorf("it takes %d bytes and has mode %o, %v", st.Blocks*512, st.Mode, err)
	}
	if _, err := os.Stat(target + ".new"); !os.IsNotExist(err) {
		t.Errorf("a temporary file is left: %v", err)
	}
	if err := copySparse(dir+"/none", dir+"/x"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a template that does not exist: %v", err)
	}
	if _, err := os.Stat(dir + "/x"); !os.IsNotExist(err) {
		t.Error("a failed copy has a name")
	}
}

// template makes an empty ext4 image.
func template(t *testing.T, dir string) string {
	t.Helper()
	path := dir + "/template.ext4"
	testns.File(t, path, "")
	if err := os.Truncate(path, 16<<20); err != nil {
		t.Fatal(err)
	}
	if output, err := exec.Command("/sbin/mkfs.ext4", "-q", path).CombinedOutput(); err != nil {
		t.Skipf("no mkfs.ext4: %v: %s", err, output)
	}
	if _, err := os.Stat("/dev/loop-control"); err != nil {
		t.Skip("no loop devices here")
	}
	return path
}

func TestAnImageIsMadeFromItsTemplateAndKeepsItsFiles(t *testing.T) {
	testns.Private(t)
	dir := t.TempDir()
	session := testns.Dir(t, dir+"/session/disk")
	d := &Disk{Image: dir + "/disk.ext4", Template: template(t, dir), Dirs: []Dir{{"workspace", 1000, 1000, 0o755}, {"etc", 0, 0, 0o755}},
		Files: []File{{"etc/hostname", "box\n"}}}
	mounted, err := d.Mount(filepath.Dir(session), nil)
	if err != nil {
		t.Skipf("no loop mounts here: %v", err)
	}
	if mounted != session || testns.Content(t, mounted+"/etc/hostname") != "box\n" {
		t.Errorf("mounted at %s", mounted)
	}
	testns.File(t, mounted+"/workspace/mine", "kept")
	if err := AwaitReleased(d.Image, time.Now()); err == nil || !strings.Contains(err.Error(), "still attached") {
		t.Errorf("while it is mounted: %v", err)
	}
	if err := syscall.Unmount(mounted, 0); err != nil {
		t.Fatal(err)
	}
	if err := AwaitReleased(d.Image, time.Now().Add(10*time.Second)); err != nil {
		t.Fatal(err)
	}
	d.Template = "/none" // it must not be used again
	if mounted, err = d.Mount(filepath.Dir(session), nil); err != nil {
		t.Fatal(err)
	}
	defer syscall.Unmount(mounted, syscall.MNT_DETACH)
	if got := testns.Content(t, mounted+"/workspace/mine"); got != "kept" {
		t.Errorf("the file holds %q", got)
	}
}

func TestASpareDiskIsClaimedOnlyIfItFits(t *testing.T) {
	for name, c := range map[string]struct {
		exists, isTmpfs bool
		template        string
		want            string
	}{
		"it fits":                {template: "t", want: "/mounted"},
		"another template":       {template: "u"},
		"the session has a disk": {template: "t", exists: true},
		"a disk in memory":       {template: "t", isTmpfs: true},
	} {
		dir := t.TempDir()
		spare := &Spare{"t", testns.File(t, dir+"/spare", ""), "/mounted"}
		d := &Disk{Image: dir + "/disk", Template: c.template}
		if c.exists {
			testns.File(t, d.Image, "own")
		}
		if c.isTmpfs {
			d.Image = ""
		}
		if got := spare.claim(d); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
		if _, err := os.Stat(spare.Image); !os.IsNotExist(err) {
			t.Errorf("%s: the spare image is left", name)
		}
		if c.exists && testns.Content(t, d.Image) != "own" {
			t.Errorf("%s: the session's disk was replaced", name)
		}
	}
	if (*Spare)(nil).claim(&Disk{}) != "" {
		t.Error("there is no spare disk")
	}
}

// onTmpfs mounts a disk in memory and fills its saved folders.
func onTmpfs(t *testing.T) (string, string, *Disk) {
	t.Helper()
	dir := testns.Folder(t)
	session := testns.Dir(t, dir+"/session")
	testns.Dir(t, session+"/disk")
	d := &Disk{TmpfsBytes: 1 << 20, Dirs: []Dir{{"workspace", 1000, 1000, 0o755}, {"home", 1000, 1000, 0o750}, {"etc", 0, 0, 0o755}},
		Binds: []Bind{{Path: "workspace", Saved: true}, {Path: "home", Saved: true}, {Path: "etc/hosts"}}}
	mounted, err := d.Mount(session, nil)
	if err != nil {
		t.Fatal(err)
	}
	return session, mounted, d
}

func TestADiskInMemoryHasItsSize(t *testing.T) {
	testns.Private(t)
	_, mounted, _ := onTmpfs(t)
	if err := os.WriteFile(mounted+"/workspace/large", make([]byte, 2<<20), 0o644); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("writing more than the size: %v, want ENOSPC", err)
	}
}

func TestFilesOfADiskInMemoryAreSavedThroughTheHolderAndRestored(t *testing.T) {
	testns.Private(t)
	session, mounted, d := onTmpfs(t)
	work := mounted + "/workspace"
	testns.File(t, testns.Dir(t, work+"/inner")+"/file", "content")
	testns.File(t, mounted+"/home/script", "#!/bin/sh")
	if err := os.Chmod(mounted+"/home/script", 0o751); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(mounted+"/home/script", 1234, 1235); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc/passwd", work+"/link"); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(work+"/pipe", 0o644); err != nil {
		t.Fatal(err)
	}
	holder := startHolder(t, session, mounted, d)
	if err := holder.Release(); err != nil {
		t.Fatal(err)
	}
	// The mount goes, as with a machine that has ended. The holder's descriptors keep the files.
	if err := syscall.Unmount(mounted, syscall.MNT_DETACH); err != nil {
		t.Fatal(err)
	}
	saved := session + "/disk.tar"
	if err := Save(holder.Identity, d.Binds, saved); err != nil {
		t.Fatal(err)
	}
	d.Restore = saved
	again, err := d.Mount(session, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := testns.Content(t, again+"/workspace/inner/file"); got != "content" {
		t.Errorf("the file holds %q", got)
	}
	st := &syscall.Stat_t{}
	if err := syscall.Stat(again+"/home/script", st); err != nil || st.Mode&0o777 != 0o751 || st.Uid != 1234 || st.Gid != 1235 {
		t.Errorf("the script has mode %o and owner %d:%d, %v", st.Mode, st.Uid, st.Gid, err)
	}
	if link, err := os.Readlink(again + "/workspace/link"); err != nil || link != "/etc/passwd" {
		t.Errorf("the link leads to %q, %v", link, err)
	}
	if _, err := os.Lstat(again + "/workspace/pipe"); !os.IsNotExist(err) {
		t.Errorf("a pipe was saved: %v", err)
	}
}

func startHolder(t *testing.T, session, mounted string, d *Disk) *Holder {
	t.Helper()
	holder, err := StartHolder(session, mounted, d)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if h, err := holder.Identity.Open(); err == nil && h != nil {
			h.Kill()
			h.Close()
		}
	})
	return holder
}

func TestAHolderThatIsNotReleasedEndsWithItsLauncher(t *testing.T) {
	testns.Private(t)
	session, mounted, d := onTmpfs(t)
	holder := startHolder(t, session, mounted, d)
	cmdline := testns.Content(t, fmt.Sprintf("/proc/%d/cmdline", holder.Identity.Pid))
	if want := strings.Join(HolderArgs(session), "\x00") + "\x00"; cmdline != want {
		t.Errorf("its command line is %q, want %q", cmdline, want)
	}
	h, err := pidfd.Open(holder.Identity.Pid)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	holder.release.Close() // as the end of the launcher would
	if err := h.Wait(time.Now().Add(10 * time.Second)); err != nil {
		t.Error(err)
	}
}

func TestADiskImageNeedsNoHolder(t *testing.T) {
	holder, err := StartHolder("/none", "/none", &Disk{Image: "/disk"})
	if err != nil || holder.Identity != nil || holder.Release() != nil {
		t.Errorf("%+v, %v", holder, err)
	}
}
