package oci

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"sandglass/runner/internal/launch/cgroup"
)

func TestResizeLimitsEveryMember(t *testing.T) {
	dir := t.TempDir()
	sleeper := exec.Command("sleep", "600")
	if err := sleeper.Start(); err != nil {
		t.Fatal(err)
	}
	defer sleeper.Wait()
	defer sleeper.Process.Kill()
	inner := filepath.Join(dir, "machine")
	if err := os.Mkdir(inner, 0o755); err != nil {
		t.Fatal(err)
	}
	// The second process has ended.
	procs := strconv.Itoa(sleeper.Process.Pid) + "\n4194303\n"
	if err := os.WriteFile(filepath.Join(inner, "cgroup.procs"), []byte(procs), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	job := &resizeJob{Groups: []cgroup.Group{{Dir: dir, Settings: []cgroup.Setting{{File: "pids.max", Value: "96"}}}}, Processes: 77}
	if err := os.WriteFile(filepath.Join(dir, "pids.max"), []byte("10"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := resize(job); err != nil {
		t.Fatal(err)
	}
	limits, err := os.ReadFile("/proc/" + strconv.Itoa(sleeper.Process.Pid) + "/limits")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(limits), "\nMax processes ")
	line, _, _ := strings.Cut(rest, "\n")
	if got := strings.Join(strings.Fields(line), " "); got != "77 77 processes" {
		t.Errorf("the process may have %q", got)
	}
	if kept, _ := os.ReadFile(filepath.Join(dir, "pids.max")); string(kept) != "96" {
		t.Errorf("pids.max is %q", kept)
	}
}
