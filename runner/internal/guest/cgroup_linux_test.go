package guest

import (
	"errors"
	"os"
	"strings"
	"testing"

	"sandglass/runner/internal/testns"
)

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
