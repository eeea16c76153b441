package microvm

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"sandglass/runner/internal/launch/hostdir"
	"sandglass/runner/internal/launch/pidfd"
	"sandglass/runner/internal/rlimit"
	"sandglass/runner/internal/testns"
)

// A supervisor is a process: this program again.
func TestMain(m *testing.M) {
	for name, command := range map[string]func() error{"supervise": Supervise, "snapshot": Snapshot} {
		if len(os.Args) > 1 && os.Args[1] == name {
			if err := command(); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			os.Exit(0)
		}
	}
	os.Exit(m.Run())
}

type supervised struct {
	cmd    *exec.Cmd
	input  io.WriteCloser
	result vmResult
}

// supervise starts a supervisor and reads its result. A shell script takes the part of QEMU.
func supervise(t *testing.T, j *vmJob) *supervised {
	t.Helper()
	s := &supervised{cmd: exec.Command("/proc/self/exe", "supervise", "box")}
	s.cmd.Stderr = os.Stderr
	var err error
	if s.input, err = s.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	output, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.input.Close()
		s.cmd.Wait()
	})
	document, err := json.Marshal(map[string]any{
		"argv": j.Argv, "files": append([]file{}, j.Files...), "sockets": append([]string{}, j.Sockets...), "bridge": "", "share_socket": "", "log": j.Log,
		"log_bytes": j.LogBytes, "groups": []any{}, "rlimits": append([]rlimit.Limit{}, j.Rlimits...),
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.input.Write(append(document, '\n')); err != nil {
		t.Fatal(err)
	}
	if err := json.NewDecoder(output).Decode(&s.result); err != nil {
		t.Fatal(err)
	}
	return s
}

func script(log, text string) *vmJob {
	return &vmJob{Argv: []string{"/bin/sh", "-c", text}, Log: log, LogBytes: 1000}
}

func TestASupervisorWritesTheLogAndEndsWithItsMachine(t *testing.T) {
	dir := t.TempDir()
	files := []file{{testns.File(t, dir+"/kernel", "kernel"), false}, {testns.File(t, dir+"/disk", ""), true}}
	j := script(dir+"/boot.log", "cat <&3; echo written >&4; test -S /proc/self/fd/5 && echo socket; ulimit -c; env; exit 7")
	j.Files, j.Sockets, j.Rlimits = files, []string{dir + "/monitor"}, []rlimit.Limit{{Resource: syscall.RLIMIT_CORE, Limit: 0}}
	s := supervise(t, j)
	if !s.result.Ok || s.result.Qemu == nil || s.result.Supervisor == nil || s.result.Supervisor.Pid != s.cmd.Process.Pid {
		t.Fatalf("%+v", s.result)
	}
	fmt.Fprint(s.input, releaseLine)
	if err := s.cmd.Wait(); err != nil {
		t.Error(err)
	}
	log := testns.Content(t, j.Log)
	// SECURITY: the environment of the daemon may hold keys.
	if want := "kernelsocket\n0\nPWD=/\n\nQEMU ended with status 7\n"; log != want {
		t.Errorf("the log is %q, want %q", log, want)
	}
	if got := testns.Content(t, dir+"/disk"); got != "written\n" {
		t.Errorf("the disk holds %q", got)
	}
}

func TestAMachineEndsWithADaemonThatHasNotReleasedIt(t *testing.T) {
	for name, line := range map[string]string{"nothing": "", "half a line": "rele", "another line": "keep\n"} {
		dir := t.TempDir()
		s := supervise(t, script(dir+"/boot.log", "exec sleep 600"))
		if !s.result.Ok {
			t.Fatalf("%+v", s.result)
		}
		fmt.Fprint(s.input, line)
		s.input.Close()
		if err := s.cmd.Wait(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if log := testns.Content(t, dir+"/boot.log"); log != "\nQEMU was killed by signal 9\n" {
			t.Errorf("%s: the log is %q", name, log)
		}
	}
}

func TestAReleasedMachineOutlivesTheDaemon(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mkfifo(dir+"/go", 0o600); err != nil {
		t.Fatal(err)
	}
	s := supervise(t, script(dir+"/boot.log", "read line < "+dir+"/go; echo $line"))
	fmt.Fprint(s.input, releaseLine)
	s.input.Close()
	h, err := pidfd.Open(s.result.Qemu.Pid)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	if err := h.Wait(time.Now().Add(50 * time.Millisecond)); err == nil {
		t.Fatal("the machine ended with the daemon")
	}
	testns.File(t, dir+"/go", "on\n")
	if err := s.cmd.Wait(); err != nil {
		t.Error(err)
	}
	if log := testns.Content(t, dir+"/boot.log"); log != "on\n\nQEMU ended with status 0\n" {
		t.Errorf("the log is %q", log)
	}
}

func TestAMachineThatCannotStartIsAResultWithAnError(t *testing.T) {
	dir := t.TempDir()
	link := dir + "/link"
	if err := os.Symlink("/etc/passwd", link); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change func(j *vmJob)
		want   string
	}{
		"no program":     {func(j *vmJob) { j.Argv = []string{"/no/such/qemu"} }, "start QEMU"},
		"a missing file": {func(j *vmJob) { j.Files = []file{{dir + "/none", false}} }, "open " + dir + "/none"},
		"a link":         {func(j *vmJob) { j.Files = []file{{link, true}} }, "too many levels"},
		"no log":         {func(j *vmJob) { j.Log = dir + "/none/log" }, "open log"},
		"no socket":      {func(j *vmJob) { j.Sockets = []string{dir + "/none/s"} }, "listen on"},
	} {
		j := script(dir+"/log", "true")
		c.change(j)
		if s := supervise(t, j); s.result.Ok || s.result.Qemu != nil || !strings.Contains(s.result.Error, c.want) {
			t.Errorf("%s: %+v", name, s.result)
		}
	}
}

func TestTheBootLogHasExactHalves(t *testing.T) {
	for total, want := range map[int]string{4: "abcd", 5: "abcde", 10: "abcdefghij", 11: "abcde\n[1 bytes left out]\nghijk", 26: "abcde\n[16 bytes left out]\nvwxyz"} {
		path := filepath.Join(t.TempDir(), "log")
		log, err := openBootLog(path, 5)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range []byte("abcdefghijklmnopqrstuvwxyz")[:total] {
			log.add([]byte{b})
		}
		log.close("end")
		if got := testns.Content(t, path); got != want+"\nend\n" {
			t.Errorf("%d bytes: %q, want %q", total, got, want)
		}
	}
}

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

// fakeMonitor answers QMP commands and writes to the descriptor that getfd brings, as QEMU does.
func fakeMonitor(t *testing.T, path string, statuses ...string) <-chan []string {
	t.Helper()
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	commands := make(chan []string, 1)
	go func() {
		defer listener.Close()
		conn, err := listener.AcceptUnix()
		if err != nil {
			return
		}
		defer conn.Close()
		var seen []string
		defer func() { commands <- seen }()
		fmt.Fprintln(conn, `{"QMP":{}}`)
		buffer, oob := make([]byte, 4096), make([]byte, 64)
		for {
			n, oobn, _, _, err := conn.ReadMsgUnix(buffer, oob)
			if err != nil || n == 0 {
				return
			}
			command := struct {
				Execute string `json:"execute"`
			}{}
			if json.Unmarshal(buffer[:n], &command) != nil {
				return
			}
			seen = append(seen, command.Execute)
			if messages, err := syscall.ParseSocketControlMessage(oob[:oobn]); err == nil && len(messages) == 1 {
				fds, _ := syscall.ParseUnixRights(&messages[0])
				syscall.Write(fds[0], []byte("memory"))
				syscall.Close(fds[0])
			}
			fmt.Fprintln(conn, `{"event":"STOP"}`)
			switch {
			case command.Execute == "query-migrate" && len(statuses) > 0:
				fmt.Fprintf(conn, `{"return":{"status":%q,"error-desc":"why"}}`+"\n", statuses[0])
				statuses = statuses[1:]
			case command.Execute == "migrate" && len(statuses) == 0:
				fmt.Fprintln(conn, `{"error":{"desc":"cannot migrate"}}`)
			default:
				fmt.Fprintln(conn, `{"return":{}}`)
			}
		}
	}()
	return commands
}

func takeSnapshot(t *testing.T, dir string) (string, error) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", "snapshot")
	cmd.Stdin = strings.NewReader(fmt.Sprintf(`{"monitor":%q,"file":%q,"deadline_ms":10000}`+"\n", dir+"/m", dir+"/snapshot"))
	output, err := cmd.CombinedOutput()
	return string(output), err
}

func TestASnapshotIsWrittenThroughADescriptor(t *testing.T) {
	dir := t.TempDir()
	commands := fakeMonitor(t, dir+"/m", "active", "completed")
	if output, err := takeSnapshot(t, dir); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	if got := testns.Content(t, dir+"/snapshot"); got != "memory" {
		t.Errorf("the file holds %q", got)
	}
	want := "qmp_capabilities getfd migrate-set-parameters migrate query-migrate query-migrate"
	if got := strings.Join(<-commands, " "); got != want {
		t.Errorf("the commands are %q, want %q", got, want)
	}
}

func TestASnapshotThatFailsSaysWhy(t *testing.T) {
	for want, statuses := range map[string][]string{"failed: why": {"active", "failed"}, "cannot migrate": nil} {
		dir := t.TempDir()
		fakeMonitor(t, dir+"/m", statuses...)
		if output, err := takeSnapshot(t, dir); err == nil || !strings.Contains(output, want) {
			t.Errorf("%s: %v: %s", want, err, output)
		}
	}
	if output, err := takeSnapshot(t, t.TempDir()); err == nil || !strings.Contains(output, "open monitor") {
		t.Errorf("no monitor: %v: %s", err, output)
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

func TestTheTimeStampCounterIsMeasured(t *testing.T) {
	first, second := TSCKhz(), TSCKhz()
	if timestamp() == 0 {
		if first != 0 {
			t.Errorf("without a counter: %d", first)
		}
		return
	}
	if first < 100_000 || float64(first)/float64(second) > 1.05 || float64(second)/float64(first) > 1.05 {
		t.Errorf("%d kHz, then %d kHz", first, second)
	}
}
