package oci

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"sandglass/runner/internal/launch/socket"
	"sandglass/runner/internal/testns"
)

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
	want := fmt.Sprintf("--option --root %s/records run --detach --bundle %s --pid-file %s --preserve-fds 3 box\n", dir, r.plan.bundle(), r.plan.pidFile())
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

func TestARunnerInheritsTheSocketForEgress(t *testing.T) {
	testns.Root(t)
	dir, r := newRuntime(t)
	egress := &socket.Owned{Path: dir + "/egress", Owner: 1234}
	if err := r.listen(dir+"/socket", egress); err != nil {
		t.Fatal(err)
	}
	if err := r.configureRunner([]byte(`{}`)); err != nil {
		t.Fatal(err)
	}
	pid, err := r.run([]byte(`{}`), nil, dir+"/log")
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Kill(pid, syscall.SIGKILL)
	for path, fd := range map[string]int{dir + "/socket": 3, egress.Path: 5} {
		links, err := socketsAt(path)
		if err != nil || len(links) != 1 {
			t.Fatalf("sockets at %s: %v, %v", path, links, err)
		}
		if link, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", pid, fd)); err != nil || link != links[0] {
			t.Errorf("descriptor %d is %s, want %s, %v", fd, link, links[0], err)
		}
	}
}

func TestTheSocketForEgressOfAMachineWithoutItDoesNotListen(t *testing.T) {
	testns.Root(t)
	dir, r := newRuntime(t)
	defer r.stop()
	if err := r.listen(dir+"/socket", nil); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[*os.File]int{r.listener: 1, r.egressListener: 0} {
		if listens, err := syscall.GetsockoptInt(int(file.Fd()), syscall.SOL_SOCKET, syscall.SO_ACCEPTCONN); err != nil || listens != want {
			t.Errorf("listens: %d, want %d, %v", listens, want, err)
		}
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

func TestAKilledRuntimeIsReportedAsKilled(t *testing.T) {
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
