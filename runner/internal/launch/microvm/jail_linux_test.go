package microvm

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"sandglass/runner/internal/launch/hostdir"
	"sandglass/runner/internal/testns"
)

func TestAJailHasTheProgramsAndTheFilesOfItsMachineOnly(t *testing.T) {
	testns.Private(t)
	dir := testns.Folder(t)
	testns.File(t, testns.Dir(t, dir+"/usr/bin")+"/tool", "tool")
	testns.File(t, dir+"/secret", "secret")
	if err := os.Symlink("usr/bin", dir+"/bin"); err != nil {
		t.Fatal(err)
	}
	files := []file{{testns.File(t, dir+"/kernel", "kernel"), false}, {testns.File(t, dir+"/disk", ""), true}}
	v := &jail{Path: testns.Dir(t, dir+"/jail"), ID: 1234, Programs: []string{dir + "/usr", dir + "/bin", dir + "/none"}, Devices: []string{"/dev/null"}}
	// Links are made below an existing folder: the one that /usr is bound in.
	if err := v.build(files, nil); err != nil {
		t.Fatal(err)
	}
	if got := testns.Content(t, v.Path+dir+"/usr/bin/tool"); got != "tool" {
		t.Errorf("the program is %q", got)
	}
	if link, err := os.Readlink(v.Path + dir + "/bin"); err != nil || link != "usr/bin" {
		t.Errorf("the link leads to %q, %v", link, err)
	}
	if got := testns.Content(t, v.Path+"/dev/fd/3"); got != "kernel" {
		t.Errorf("the first file is %q", got)
	}
	for _, path := range []string{"/dev/fd/4", dir + "/secret", dir + "/disk", dir + "/none", "/proc", "/etc"} {
		if _, err := os.Lstat(v.Path + path); !os.IsNotExist(err) {
			t.Errorf("the jail has %s: %v", path, err)
		}
	}
	for _, path := range []string{"/new", "/dev/fd/3", dir + "/usr/bin/tool"} {
		if err := os.WriteFile(v.Path+path, nil, 0o644); err == nil {
			t.Errorf("%s can be written", path)
		}
	}
	st := &syscall.Stat_t{}
	if err := syscall.Stat(v.Path+"/dev/null", st); err != nil || st.Mode&syscall.S_IFMT != syscall.S_IFCHR || st.Uid != 1234 {
		t.Errorf("the device has mode %o and owner %d, %v", st.Mode, st.Uid, err)
	}
}

func TestSharesFor9pAreMountedWithTheirLimits(t *testing.T) {
	testns.Private(t)
	dir := testns.Folder(t)
	source := testns.Dir(t, dir+"/source")
	testns.File(t, source+"/file", "shared")
	s := &shares{Path: testns.Dir(t, dir+"/shares"), Folders: []hostdir.Folder{{Source: source, Readonly: true}}}
	connections, err := s.start("", nil)
	if err != nil || len(connections) != 0 || !s.isNineP() {
		t.Fatalf("%v, %v", connections, err)
	}
	if got := testns.Content(t, s.Path+"/0/file"); got != "shared" {
		t.Errorf("the file is %q", got)
	}
	if err := os.WriteFile(s.Path+"/0/file", nil, 0o644); err == nil {
		t.Error("a read-only share can be written")
	}
	v := &jail{Path: testns.Dir(t, dir+"/jail")}
	if err := v.build(nil, s); err != nil {
		t.Fatal(err)
	}
	if got := testns.Content(t, v.Path+"/shares/0/file"); got != "shared" {
		t.Errorf("in the jail it is %q", got)
	}
	if connections, err := (*shares)(nil).start("", nil); err != nil || connections != nil {
		t.Errorf("without shares: %v, %v", connections, err)
	}
}

func TestTheJailsAttributesGiveQemuAnIDOfItsOwn(t *testing.T) {
	j := &vmJob{}
	if got, err := j.attributes(); err != nil || got.Cloneflags != 0 || got.Chroot != "" || !got.Setsid {
		t.Errorf("without a jail: %+v, %v", got, err)
	}
	testns.Private(t)
	j.Jail = &jail{Path: testns.Dir(t, testns.Folder(t)+"/jail"), ID: 300_000}
	got, err := j.attributes()
	if err != nil {
		t.Fatal(err)
	}
	const wanted = syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET | syscall.CLONE_NEWPID | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS
	if got.Cloneflags != wanted || got.Chroot != j.Jail.Path || got.Credential.Uid != insideID || len(got.UidMappings) != 1 ||
		got.UidMappings[0] != (syscall.SysProcIDMap{ContainerID: insideID, HostID: 300_000, Size: 1}) {
		t.Errorf("%+v", got)
	}
}

func TestATapJoinsItsBridgeAndGoesWithItsDescriptor(t *testing.T) {
	testns.Root(t)
	if _, err := openTap("no-such-bridge"); err == nil || !strings.Contains(err.Error(), "find bridge") {
		t.Errorf("no bridge: %v", err)
	}
	if output, err := exec.Command("ip", "link", "add", "sgtestbr0", "type", "bridge").CombinedOutput(); err != nil {
		t.Skipf("no bridges here: %v: %s", err, output)
	}
	defer exec.Command("ip", "link", "delete", "sgtestbr0").Run()
	tap, err := openTap("sgtestbr0")
	if err != nil {
		t.Skipf("no taps here: %v", err)
	}
	ports := func() int {
		entries, _ := os.ReadDir("/sys/class/net/sgtestbr0/brif")
		return len(entries)
	}
	if got := ports(); got != 1 {
		t.Errorf("the bridge has %d ports", got)
	}
	tap.Close()
	if got := ports(); got != 0 {
		t.Errorf("after the end the bridge has %d ports", got)
	}
}
