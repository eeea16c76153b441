package oci

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"sandglass/runner/internal/launch/disk"
	"sandglass/runner/internal/launch/hostdir"
	"sandglass/runner/internal/launch/mount"
	"sandglass/runner/internal/launch/pidfd"
	"sandglass/runner/internal/launch/socket"
	"sandglass/runner/internal/launch/userns"
	"sandglass/runner/internal/testns"
)

// started runs a program and ends it with the test.
func started(t *testing.T, cmd *exec.Cmd) *exec.Cmd {
	t.Helper()
	if err := cmd.Start(); err != nil {
		t.Skipf("cannot start %v: %v", cmd.Args, err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	return cmd
}

func TestTheBootLogIsBoundedAndSealed(t *testing.T) {
	file, err := boundedFile(4096)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.WriteString("first\nlast\n"); err != nil {
		t.Fatal(err)
	}
	if got := readText(file); got != "first\nlast\n" {
		t.Errorf("it holds %q", got)
	}
	// SECURITY: a sandbox that writes for ever fills nothing.
	if _, err := file.Write(make([]byte, 8192)); err == nil {
		t.Error("it grew")
	}
	if err := file.Truncate(8192); !errors.Is(err, syscall.EPERM) {
		t.Errorf("resizing: %v, want EPERM", err)
	}
}

func TestASummaryIsTheFirstAndTheLastLine(t *testing.T) {
	long := strings.Repeat("x", 600)
	for text, want := range map[string]string{
		"":                              "",
		"one line\n":                    "one line",
		"error: no\nusage:\n  run\nend": "error: no … end",
		long + "\nend":                  long[:500] + " … end",
	} {
		if got := summary(text); got != want {
			t.Errorf("%q: got %q", text, got)
		}
	}
}

func TestASocketFolderIsTakenOnceTheRunnerListens(t *testing.T) {
	testns.Root(t)
	dir := t.TempDir()
	f := &socketFolder{Path: dir + "/folder", Name: "s", Target: "/socket", Owner: 1234}
	testns.File(t, testns.Dir(t, f.Path)+"/old", "left")
	if err := f.make(); err != nil {
		t.Fatal(err)
	}
	st := &syscall.Stat_t{}
	if err := syscall.Stat(f.Path, st); err != nil || st.Uid != 1234 || st.Mode&0o777 != 0o700 {
		t.Errorf("mode %o, owner %d, %v", st.Mode, st.Uid, err)
	}
	if entries, _ := os.ReadDir(f.Path); len(entries) != 0 {
		t.Errorf("it holds %v", entries)
	}
	listener, err := net.Listen("unix", f.Path+"/s")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	if err := f.take(dir+"/socket", os.Getpid()); err != nil {
		t.Fatal(err)
	}
	if !answers(dir + "/socket") {
		t.Error("the socket does not answer at its new path")
	}
	if _, err := os.Stat(f.Path); !os.IsNotExist(err) {
		t.Errorf("the folder is left: %v", err)
	}
	if err := (*socketFolder)(nil).make(); err != nil {
		t.Error(err)
	}
}

func TestARunnerThatEndsBeforeItListensIsAnError(t *testing.T) {
	f := &socketFolder{Path: t.TempDir(), Name: "s"}
	if err := f.take("/none", 4_194_303); err == nil || !strings.Contains(err.Error(), "ended at once") {
		t.Errorf("got %v", err)
	}
	// SECURITY: what a sandbox puts there in place of a socket is not used.
	if err := os.Symlink("/run/other.sock", f.Path+"/s"); err != nil {
		t.Fatal(err)
	}
	if answers(f.Path + "/s") {
		t.Error("a link was taken for a socket")
	}
}

func TestStragglersAreFoundByTheirSocketAndByTheirCommandLine(t *testing.T) {
	testns.Root(t)
	dir := t.TempDir()
	path := dir + "/run.sock"
	listener, err := socket.Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	withSocket := exec.Command("sleep", "600")
	withSocket.ExtraFiles = []*os.File{listener}
	started(t, withSocket)
	listener.Close()
	holder := exec.Command("sleep", "600")
	holder.Args = disk.HolderArgs(dir)
	holder.Path = "/proc/self/exe" // this program, which waits: see TestMain
	started(t, holder)
	other := started(t, exec.Command("sleep", "600"))
	if err := endStragglers(dir, path, time.Now().Add(10*time.Second)); err != nil {
		t.Fatal(err)
	}
	for name, cmd := range map[string]*exec.Cmd{"with the socket": withSocket, "the holder": holder} {
		if err := cmd.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := other.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("another process: %v", err)
	}
}

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "hold-disk" {
		time.Sleep(10 * time.Minute)
	}
	os.Exit(m.Run())
}

func TestVerifyRefusesLessIsolation(t *testing.T) {
	testns.Root(t)
	plain := started(t, exec.Command("sleep", "600")).Process.Pid
	if err := checkApart(plain, "net"); err == nil || !strings.Contains(err.Error(), "no net namespace") {
		t.Errorf("a process in the host's network: %v", err)
	}
	unshared := exec.Command("sleep", "600")
	unshared.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS}
	pid := started(t, unshared).Process.Pid
	if err := checkApart(pid, "net", "uts"); err != nil {
		t.Error(err)
	}
	if err := checkApart(pid, "net", "uts", "ipc"); err == nil || !strings.Contains(err.Error(), "no ipc namespace") {
		t.Errorf("a process in the host's ipc: %v", err)
	}
	if err := checkFilter(plain); err == nil || !strings.Contains(err.Error(), "no seccomp filter") {
		t.Errorf("a process without a filter: %v", err)
	}
	if err := checkFilter(4_194_303); err == nil || !strings.Contains(err.Error(), "ended at once") {
		t.Errorf("no process: %v", err)
	}
}

func TestVerifyComparesTheIDsOfTheUserNamespace(t *testing.T) {
	testns.Root(t)
	cmd := exec.Command("sleep", "600")
	maps := []syscall.SysProcIDMap{{ContainerID: 0, HostID: 300_000, Size: 10}}
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER, UidMappings: maps, GidMappings: maps}
	pid := started(t, cmd).Process.Pid
	if err := checkIDs(pid, []userns.Range{{Inside: 0, Outside: 300_000, Size: 10}}); err != nil {
		t.Error(err)
	}
	for _, ids := range [][]userns.Range{nil, {{Inside: 0, Outside: 300_000, Size: 11}}, {{Inside: 0, Outside: 0, Size: 10}}} {
		if err := checkIDs(pid, ids); err == nil {
			t.Errorf("the ids %v were accepted", ids)
		}
	}
	own, err := os.Open("/proc/self/ns/user")
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	if err := checkUsers(pid, own); err == nil {
		t.Error("another user namespace was accepted")
	}
	if err := checkUsers(os.Getpid(), own); err != nil {
		t.Error(err)
	}
}

func TestVerifyFindsTheListeningSocketUnderAnyNumber(t *testing.T) {
	listener, err := socket.New()
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	with := exec.Command("sleep", "600")
	with.ExtraFiles = []*os.File{nil, listener}
	if err := checkInherited(started(t, with).Process.Pid, listener); err != nil {
		t.Error(err)
	}
	if err := checkInherited(started(t, exec.Command("sleep", "600")).Process.Pid, listener); err == nil {
		t.Error("a process without the socket was accepted")
	}
}

// image makes two layers below a base folder.
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
	paths := map[string]found{
		"/etc/passwd": {"file", []byte("high")}, "/etc/group": {"file", []byte("group")}, "/etc/link": {"file", []byte("high")},
		"/etc": {Kind: "folder"}, "/etc/pipe": {Kind: "other"}, "/etc/large": {Kind: "file"},
		"/none": {}, "/etc/out": {}, "/etc/dangling": {}, "/etc/loop": {}, "/../../etc/group": {"file", []byte("group")},
	}
	j := &findJob{Stack: *s, Folder: testns.Dir(t, dir+"/mounted")}
	for path := range paths {
		j.Paths = append(j.Paths, path)
	}
	got, err := find(j)
	if err != nil {
		t.Skipf("no overlay on this filesystem: %v", err)
	}
	for path, want := range paths {
		if got[path].Kind != want.Kind || !bytes.Equal(got[path].Content, want.Content) {
			t.Errorf("%s: got %q %q, want %q %q", path, got[path].Kind, got[path].Content, want.Kind, want.Content)
		}
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

// fakeRuntime is a runtime that copies what it was given, and starts a process that stays.
const fakeRuntime = `#!/bin/sh
out=$(dirname "$0")
echo "$@" > "$out/args"
while [ $# -gt 0 ]; do
  case $1 in --bundle) bundle=$2 ;; --pid-file) pid=$2 ;; esac
  shift
done
cat "$bundle/config.json" > "$out/config"
ulimit -n > "$out/files"
echo "runtime output"
[ ! -e "$out/fail" ] || exit 3
(cat <&4 > "$out/told"; exec sleep 600) > /dev/null 2>&1 &
echo $! > "$pid"
`

func newRuntime(t *testing.T) (string, *ociRuntime) {
	t.Helper()
	dir := t.TempDir()
	program := testns.File(t, dir+"/runtime", fakeRuntime)
	if err := os.Chmod(program, 0o755); err != nil {
		t.Fatal(err)
	}
	plan := &runtimePlan{Argv: []string{program, "--option"}, ID: "box", Folder: testns.Dir(t, dir+"/folder"), Records: dir + "/records", OpenFiles: 512}
	limit := syscall.Rlimit{}
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	plan.OpenFiles = limit.Max // this process takes the limit on itself
	r, err := plan.start()
	if err != nil {
		t.Fatal(err)
	}
	return dir, r
}

func TestARuntimeThatWaitsGetsItsConfigurationThroughThePipe(t *testing.T) {
	testns.Root(t)
	dir, r := newRuntime(t)
	if err := r.configureRunner([]byte(`{"token":"t"}`)); err != nil {
		t.Fatal(err)
	}
	pid, err := r.run([]byte(`{"ociVersion":"1"}`), nil, dir+"/log")
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Kill(pid, syscall.SIGKILL)
	if got := testns.Content(t, dir+"/config"); got != `{"ociVersion":"1"}` {
		t.Errorf("it read the configuration %q", got)
	}
	want := fmt.Sprintf("--option --root %s/records run --detach --bundle %s --pid-file %s --preserve-fds 2 box\n", dir, r.plan.bundle(), r.plan.pidFile())
	if got := testns.Content(t, dir+"/args"); got != want {
		t.Errorf("its arguments are %q, want %q", got, want)
	}
	if got := testns.Content(t, dir+"/log"); got != "runtime output\n" {
		t.Errorf("the boot log is %q", got)
	}
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		told, err := os.ReadFile(dir + "/told")
		if err == nil && string(told) == "{\"token\":\"t\"}\n" {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the runner got %q, %v", told, err)
		}
	}
	// SECURITY: the runner's configuration is in no file of the bundle.
	bundle, err := os.ReadFile(r.plan.bundle() + "/config.json")
	if err != nil || bytes.Contains(bundle, []byte("token")) {
		t.Errorf("the bundle is %q, %v", bundle, err)
	}
}

func TestARuntimeThatFailsIsAnErrorWithItsOutput(t *testing.T) {
	testns.Root(t)
	dir, r := newRuntime(t)
	testns.File(t, dir+"/fail", "")
	_, err := r.run([]byte("{}"), nil, dir+"/log")
	if err == nil || !strings.Contains(err.Error(), "exit status 3: runtime output") || wasKilled(err) {
		t.Errorf("got %v", err)
	}
}

func TestARuntimeThatIsKilledIsToldApart(t *testing.T) {
	testns.Root(t)
	dir, r := newRuntime(t)
	if err := r.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := r.run([]byte("{}"), nil, dir+"/log"); !wasKilled(err) {
		t.Errorf("got %v", err)
	}
	if wasKilled(io.EOF) {
		t.Error("another error counts as killed")
	}
}

func TestARunnersConfigurationMustFitIntoThePipe(t *testing.T) {
	testns.Root(t)
	_, r := newRuntime(t)
	defer r.stop()
	if err := r.configureRunner(make([]byte, 61<<10)); err == nil || !strings.Contains(err.Error(), "too long") {
		t.Errorf("got %v", err)
	}
}

func TestAnEndRemovesWhatIsLeftAndEndsTwice(t *testing.T) {
	testns.Root(t)
	dir := t.TempDir()
	cmd := started(t, exec.Command("sleep", "600"))
	identity, err := pidfd.Identify(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	go cmd.Wait()
	folder := testns.Dir(t, dir+"/session")
	for _, name := range []string{"state.json", "pid", "config.json"} {
		testns.File(t, folder+"/"+name, "{}")
	}
	testns.File(t, testns.Dir(t, dir+"/records")+"/state", "")
	testns.File(t, testns.Dir(t, dir+"/sockets")+"/s", "")
	j := &endJob{ID: "box", Runtime: []string{"/no/such/runtime"}, Records: dir + "/records", Folder: folder, Socket: testns.File(t, dir+"/sock", ""),
		SocketFolder: dir + "/sockets", State: &state{Identity: *identity}}
	for i := 0; i < 2; i++ {
		if err := end(j, &result{}); err != nil {
			t.Fatalf("time %d: %v", i+1, err)
		}
	}
	if h, err := identity.Open(); err != nil || h != nil {
		t.Errorf("the machine runs: %v, %v", h, err)
	}
	left, err := os.ReadDir(folder)
	if err != nil || len(left) != 1 || left[0].Name() != "config.json" {
		t.Errorf("left in the folder: %v, %v", left, err)
	}
	for _, path := range []string{j.Records, j.Socket, j.SocketFolder} {
		if _, err := os.Lstat(path); !os.IsNotExist(err) {
			t.Errorf("%s is left: %v", path, err)
		}
	}
}

func TestAPreparationIsUndoneWhenTheDaemonIsGone(t *testing.T) {
	dir := t.TempDir()
	home := testns.File(t, dir+"/home", "")
	p := &prepareJob{Home: []string{home}, Disk: &disk.Spare{Image: testns.File(t, dir+"/spare", "")}}
	p.undo()
	if _, err := os.Stat(p.Disk.Image); !os.IsNotExist(err) {
		t.Errorf("the spare disk is left: %v", err)
	}
	if got := testns.Content(t, home); got != strconv.Itoa(os.Getpid()) {
		t.Errorf("this process went home as %q", got)
	}
}

func TestAPreparedUserNamespaceIsUsedOnlyForItsIDs(t *testing.T) {
	testns.Root(t)
	file, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	ids := []userns.Range{{Inside: 0, Outside: 300_000, Size: 10}}
	p := &prepareJob{IDs: ids, users: file}
	if got, err := p.userNamespace([]userns.Range{{Inside: 0, Outside: 300_000, Size: 10}}); err != nil || got != file {
		t.Errorf("the prepared one was not used: %v, %v", got, err)
	}
	if got, err := p.userNamespace(nil); err == nil || got == file {
		t.Errorf("it was used for other ids: %v, %v", got, err)
	}
}

func TestAProbeSaysWhyAFeatureIsMissing(t *testing.T) {
	testns.Private(t)
	got := probe(&probeJob{Folder: "/none"})
	if !strings.Contains(got.Mounts, "/none") || !strings.Contains(got.Overlay, "/none") {
		t.Errorf("with a folder that does not exist: %+v", got)
	}
	if got := probe(&probeJob{Folder: testns.Dir(t, testns.Folder(t)+"/empty")}); got.Mounts != "" {
		t.Errorf("as root: %+v", got)
	}
}
