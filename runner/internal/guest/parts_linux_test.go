package guest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"sandglass/runner/internal/testns"
)

func TestBootOptionsComeFromTheKernelsCommandLine(t *testing.T) {
	got, err := parseBootOptions([]string{"--layers", "3", "--tmp-mb=128", "--load", "9p,kvm-intel", "--read-ahead"})
	want := &bootOptions{layers: 3, tmpMb: 128, load: []string{"9p", "kvm-intel"}, readAhead: true}
	if err != nil || !reflect.DeepEqual(got, want) || !got.nested() {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := parseBootOptions(nil); err != nil || got.tmpMb != 64 || len(got.load) != 0 || got.nested() || got.trial {
		t.Errorf("without options: %+v, %v", got, err)
	}
	for _, args := range [][]string{{"--layers", "x"}, {"--no-such-option"}} {
		if _, err := parseBootOptions(args); err == nil {
			t.Errorf("%v was accepted", args)
		}
	}
}

func TestModulesAreLoadedInTheOrderOfTheirLists(t *testing.T) {
	dir := t.TempDir()
	testns.File(t, dir+"/base.list", "virtio\nvirtio_blk\next4\n")
	testns.File(t, dir+"/9p.list", "9pnet 9p")
	got, err := moduleFiles(dir, []string{"9p"})
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, name := range []string{"virtio", "virtio_blk", "ext4", "9pnet", "9p"} {
		want = append(want, dir+"/"+name+".ko")
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v", got)
	}
	if _, err := moduleFiles(dir, []string{"none"}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a set that does not exist: %v", err)
	}
	// The name of a set comes from the command line, and is no path.
	if _, err := moduleFiles(dir, []string{"../9p"}); err != nil {
		t.Errorf("a set is looked up by its last part: %v", err)
	}
}

func controlWith(input string) (*control, *bytes.Buffer) {
	out := &bytes.Buffer{}
	return &control{in: bufio.NewReaderSize(strings.NewReader(input), 64), out: out}, out
}

func TestTheConfigurationIsTheFirstLineThatIsNotEmpty(t *testing.T) {
	line := oneLine(t, "guest-config")
	c, _ := controlWith("\n\n" + line + "\n{\"type\":\"end\"}\n")
	cfg, raw, err := c.awaitConfig()
	if err != nil || cfg.Hostname != "box" || string(raw) != line {
		t.Errorf("%+v, %v", cfg, err)
	}
	for name, input := range map[string]string{"a request": "{\"type\":\"end\"}\n", "no JSON": "hello\n", "the end of the port": ""} {
		c, _ := controlWith(input)
		if _, _, err := c.awaitConfig(); err == nil {
			t.Errorf("%s was taken for a configuration", name)
		}
	}
}

func TestALineOfThePortIsBounded(t *testing.T) {
	c, _ := controlWith(strings.Repeat("x", maxLineBytes+1000) + "\n")
	if _, err := c.line(); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("got %v", err)
	}
	long := strings.Repeat("y", 5000)
	c, _ = controlWith(long + "\nnext\n")
	for _, want := range []string{long, "next"} {
		if line, err := c.line(); err != nil || string(line) != want {
			t.Errorf("got %d bytes, %v", len(line), err)
		}
	}
	if _, err := c.line(); !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %v", err)
	}
}

func TestRequestsAreAnsweredAndOtherLinesDropped(t *testing.T) {
	cmd := exec.Command("sleep", "600")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Kill()
	s := &session{pid: cmd.Process.Pid}
	lines := []string{"", "half a li", "{}", `{"type":"stats","id":"1","more":1}`, `{"type":"other"}`, oneLine(t, "guest-request-stats"), `{"type":"clock"}`, oneLine(t, "guest-request-end")}
	c, out := controlWith(strings.Join(lines, "\n") + "\n")
	c.serve(s)
	reply := &statsReply{}
	if err := json.Unmarshal(out.Bytes(), reply); err != nil || reply.Type != "stats" || reply.ID != "k3j2" || strings.Count(out.String(), "\n") != 1 {
		t.Errorf("the answers are %q, %v", out, err)
	}
	if err := cmd.Wait(); err == nil || !s.isEnded {
		t.Errorf("the session was not ended: %v", err)
	}
	s.end() // twice is the same as once
}

func oneLine(t *testing.T, name string) string {
	t.Helper()
	out := &bytes.Buffer{}
	data, err := os.ReadFile("../../testdata/launcher/" + name + ".json")
	if err == nil {
		err = json.Compact(out, data)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestTheReasonOfAnExit(t *testing.T) {
	const killed, exited = syscall.WaitStatus(9), syscall.WaitStatus(3 << 8)
	for _, c := range []struct {
		status      syscall.WaitStatus
		isRequested bool
		oomKills    int64
		want        exitReason
	}{
		{killed, false, 0, exitReason{exitSignal, "signal 9 ended the runner"}},
		{killed, false, 2, exitReason{exitOutOfMemory, "the session ran out of memory: the kernel killed the runner"}},
		{killed, true, 2, exitReason{exitRequested, "the daemon ended the session"}},
		{exited, false, 0, exitReason{exitStatus, "the runner exited with status 3"}},
		// A process of the sandbox was killed for want of memory earlier, but the runner exited by itself.
		{exited, false, 5, exitReason{exitStatus, "the runner exited with status 3"}},
	} {
		if got := reasonOf(c.status, c.isRequested, c.oomKills); *got != c.want {
			t.Errorf("%v: %+v, want %+v", c.status, got, c.want)
		}
	}
}

func TestWaitReturnsTheReasonOfTheRunner(t *testing.T) {
	pid, err := syscall.ForkExec("/bin/sh", []string{"sh", "-c", "exit 5"}, &syscall.ProcAttr{})
	if err != nil {
		t.Fatal(err)
	}
	s := &session{pid: pid}
	if got, err := s.wait(); err != nil || got.Reason != exitStatus || got.Text != "the runner exited with status 5" {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestLimitsOfTheGroupAreSetAndReadBack(t *testing.T) {
	dir := t.TempDir()
	for _, file := range []string{"memory.max", "pids.max", "cpu.max"} {
		testns.File(t, dir+"/"+file, "")
	}
	// There is no memory.swap.max, as in a kernel without swap.
	if err := limitGroup(dir, &limits{MemoryBytes: 1000, Pids: 20, CPUQuotaUsec: 50_000}); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{"memory.max": "1000", "pids.max": "20", "cpu.max": "50000 100000"} {
		if got := testns.Content(t, dir+"/"+file); got != want {
			t.Errorf("%s is %q", file, got)
		}
	}
	os.Remove(dir + "/pids.max")
	if err := limitGroup(dir, &limits{MemoryBytes: 1000, Pids: 20}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without pids.max: %v", err)
	}
	if err := os.Symlink("/dev/null", dir+"/pids.max"); err != nil {
		t.Fatal(err)
	}
	// SECURITY: the kernel took the value and did not keep it.
	if err := limitGroup(dir, &limits{MemoryBytes: 1000, Pids: 20}); err == nil || !strings.Contains(err.Error(), `is "" after 20 was written`) {
		t.Errorf("a limit that is not kept: %v", err)
	}
}

func TestStatisticsLeaveOutTheRunnersThreadsAndTheCacheThatCanBeDropped(t *testing.T) {
	dir := t.TempDir()
	for file, content := range map[string]string{
		"cpu.stat": "usage_usec 1234\nuser_usec 1000\n", "memory.current": "5000\n", "memory.stat": "anon 1\ninactive_file 2000\n",
		"memory.max": "9000\n", "memory.peak": "6000\n", "memory.events": "low 0\noom_kill 3\n", "pids.current": "1000\n", "pids.max": "2000\n",
		"pids.events": "max 4\n", "pids.peak": "1\n",
	} {
		testns.File(t, dir+"/"+file, content)
	}
	own := threads(os.Getpid())
	got := groupStats(dir, os.Getpid())
	got.SandboxPids += threads(os.Getpid()) - own // a thread of this test may have started meanwhile
	want := stats{CPUUsageUsec: 1234, MemoryBytes: 3000, MemoryLimit: 9000, MemoryPeakBytes: 6000, OOMKills: 3, Pids: 1000, PidsLimit: 2000,
		PidRefusals: 4, SandboxPids: 1000 - own, SandboxPidsPeak: 0}
	if own == 0 || got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := groupStats(dir+"/none", 4_194_303); got != (stats{}) {
		t.Errorf("without files: %+v", got)
	}
}

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

func TestABadSeccompFilterIsRefused(t *testing.T) {
	if os.Getenv("TEST_FILTER") == "" {
		// It sets no-new-privileges for good, so it is done in another process.
		cmd := exec.Command("/proc/self/exe", "-test.run=TestABadSeccompFilterIsRefused")
		cmd.Env = append(os.Environ(), "TEST_FILTER=1")
		if output, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, output)
		}
		return
	}
	for _, program := range [][]byte{nil, make([]byte, 7), make([]byte, 8*(maxBPFInstruction+1))} {
		if err := filter(program); err == nil || !strings.Contains(err.Error(), "invalid length") {
			t.Errorf("%d bytes: %v", len(program), err)
		}
	}
	if status, err := os.ReadFile("/proc/self/status"); err != nil || !strings.Contains(string(status), "NoNewPrivs:\t1") {
		t.Errorf("no-new-privileges is not set: %v", err)
	}
}

func TestTooLittleEntropyIsRefused(t *testing.T) {
	if err := addEntropy(make([]byte, 31)); err == nil || !strings.Contains(err.Error(), "too few") {
		t.Errorf("got %v", err)
	}
}
