package guest

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// workGroup holds the runner and everything it starts. The kernel never kills the first process of a machine for want of memory, so what
// answers for the machine needs no group of its own.
const workGroup = groupDir + "/work"

const cpuPeriodUsec = 100_000

func makeGroup() error {
	if err := (mount{"cgroup2", groupDir, "cgroup2", 0, ""}).do(); err != nil {
		return err
	}
	if err := os.WriteFile(groupDir+"/cgroup.subtree_control", []byte("+cpu +memory +pids"), 0); err != nil {
		return fmt.Errorf("enable controllers: %w", err)
	}
	if err := os.Mkdir(workGroup, 0o755); err != nil {
		return fmt.Errorf("make cgroup: %w", err)
	}
	return nil
}

func limitGroup(l *limits) error {
	settings := map[string]string{
		"memory.max": strconv.FormatInt(l.MemoryBytes, 10), "memory.swap.max": "0", "pids.max": strconv.Itoa(l.Pids),
	}
	if l.CPUQuotaUsec > 0 {
		settings["cpu.max"] = fmt.Sprintf("%d %d", l.CPUQuotaUsec, cpuPeriodUsec)
	}
	for file, value := range settings {
		err := limit(filepath.Join(workGroup, file), value)
		if os.IsNotExist(err) && file == "memory.swap.max" {
			continue // a kernel without swap has nothing to forbid
		}
		if err != nil {
			return fmt.Errorf("set limit: %w", err)
		}
	}
	return nil
}

func limit(path, value string) error {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	if _, err := file.WriteString(value); err != nil {
		return err
	}
	// SECURITY: a limit that the kernel took and did not keep is no limit.
	got := make([]byte, 64)
	n, err := file.ReadAt(got, 0)
	if kept := strings.TrimSpace(string(got[:n])); kept != value {
		return fmt.Errorf("%s is %q after %s was written (%v)", path, kept, value, err)
	}
	return nil
}

// groupStats is what the session uses and may use. The runner's threads are left out of the sandbox's processes.
func groupStats(runner int) map[string]any {
	own := threads(runner)
	return map[string]any{
		"cpu_usage_usec": field("cpu.stat", "usage_usec"), "memory_bytes": number("memory.current") - field("memory.stat", "inactive_file"),
		"memory_limit": number("memory.max"), "memory_peak_bytes": number("memory.peak"), "oom_kills": field("memory.events", "oom_kill"),
		"pids": number("pids.current"), "pids_limit": number("pids.max"),
		"pid_refusals": field("pids.events", "max"), "sandbox_pids": without(number("pids.current"), own),
		"sandbox_pids_peak": without(number("pids.peak"), own),
	}
}

// without is 0 where the file is not there, or was read before a thread started.
func without(all, own int64) int64 {
	if all < own {
		return 0
	}
	return all - own
}

func threads(pid int) int64 {
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return 0
	}
	return int64(len(entries))
}

func number(file string) int64 {
	content, err := os.ReadFile(filepath.Join(workGroup, file))
	if err != nil {
		return 0
	}
	value, _ := strconv.ParseInt(strings.TrimSpace(string(content)), 10, 64)
	return value
}

func field(file, name string) int64 {
	content, err := os.ReadFile(filepath.Join(workGroup, file))
	if err != nil {
		return 0
	}
	for _, line := range strings.Split(string(content), "\n") {
		if parts := strings.Fields(line); len(parts) == 2 && parts[0] == name {
			value, _ := strconv.ParseInt(parts[1], 10, 64)
			return value
		}
	}
	return 0
}
