package guest

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// workGroup is the cgroup of the runner and of every process that it starts. The kernel never kills the first process of a machine when
// memory runs out, so that process needs no group of its own.
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

func limitGroup(group string, l *limits) error {
	settings := map[string]string{
		"memory.max": strconv.FormatInt(l.MemoryBytes, 10), "memory.swap.max": "0", "pids.max": strconv.Itoa(l.Pids),
	}
	if l.CPUQuotaUsec > 0 {
		settings["cpu.max"] = fmt.Sprintf("%d %d", l.CPUQuotaUsec, cpuPeriodUsec)
	}
	for file, value := range settings {
		err := limit(filepath.Join(group, file), value)
		if os.IsNotExist(err) && file == "memory.swap.max" {
			continue // a kernel without swap
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
	// SECURITY: a kernel may accept a value without applying it.
	got := make([]byte, 64)
	n, err := file.ReadAt(got, 0)
	if kept := strings.TrimSpace(string(got[:n])); kept != value {
		return fmt.Errorf("%s is %q after %s was written (%v)", path, kept, value, err)
	}
	return nil
}

// stats are the usage and the limits of the session. The sandbox's processes are those of the group without the runner's threads.
type stats struct {
	CPUUsageUsec    int64 `json:"cpu_usage_usec"`
	MemoryBytes     int64 `json:"memory_bytes"`
	MemoryLimit     int64 `json:"memory_limit"`
	MemoryPeakBytes int64 `json:"memory_peak_bytes"`
	OOMKills        int64 `json:"oom_kills"`
	Pids            int64 `json:"pids"`
	PidsLimit       int64 `json:"pids_limit"`
	PidRefusals     int64 `json:"pid_refusals"`
	SandboxPids     int64 `json:"sandbox_pids"`
	SandboxPidsPeak int64 `json:"sandbox_pids_peak"`
}

func groupStats(group string, runner int) stats {
	own := threads(runner)
	return stats{
		CPUUsageUsec: field(group, "cpu.stat", "usage_usec"),
		MemoryBytes:  number(group, "memory.current") - field(group, "memory.stat", "inactive_file"),
		MemoryLimit:  number(group, "memory.max"), MemoryPeakBytes: number(group, "memory.peak"),
		OOMKills: field(group, "memory.events", "oom_kill"),
		Pids:     number(group, "pids.current"), PidsLimit: number(group, "pids.max"), PidRefusals: field(group, "pids.events", "max"),
		SandboxPids: without(number(group, "pids.current"), own), SandboxPidsPeak: without(number(group, "pids.peak"), own),
	}
}

// without is all - own, and 0 where the file is missing or was read before a thread started.
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

func number(group, file string) int64 {
	content, err := os.ReadFile(filepath.Join(group, file))
	if err != nil {
		return 0
	}
	value, _ := strconv.ParseInt(strings.TrimSpace(string(content)), 10, 64)
	return value
}

func field(group, file, name string) int64 {
	content, err := os.ReadFile(filepath.Join(group, file))
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
