// Package cgroup makes the cgroups of a machine, sets and checks their limits, and removes them with all their processes.
package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"sandglass/runner/internal/launch/pidfd"
)

// A Group is one cgroup folder of a machine. A machine has one per hierarchy on cgroup v1, and one on v2.
type Group struct {
	Dir string `json:"dir"`
	// Name is the path that /proc/<pid>/cgroup shows.
	Name     string    `json:"name"`
	Settings []Setting `json:"settings"`
	// Thaw is the freezer's file and the value that thaws the group.
	Thaw *Setting `json:"thaw,omitempty"`
	// Devices are the rules of the devices controller (v1); nil for a group without that controller.
	Devices []string `json:"devices,omitempty"`
	// Enable lists the controllers that the parent must enable for this group (v2), or "".
	Enable string `json:"enable,omitempty"`
	// Join: this process enters the group before it starts the machine, so that the machine's processes are in it from their start.
	Join bool `json:"join"`
}

const subtreeControl = "cgroup.subtree_control"

// A Setting is a file of a cgroup and the value to write.
type Setting struct {
	File  string `json:"file"`
	Value string `json:"value"`
}

// Enter makes the groups and joins those that are marked.
func Enter(groups []Group) error {
	for _, g := range groups {
		if err := g.create(); err != nil {
			return err
		}
		if g.Join {
			if err := os.WriteFile(filepath.Join(g.Dir, "cgroup.procs"), []byte(strconv.Itoa(os.Getpid())), 0); err != nil {
				return fmt.Errorf("join cgroup: %w", err)
			}
		}
	}
	return nil
}

// How often Enter tries to make a group. The parent is removed with its last machine, which may happen between two steps.
const createTries = 10

// create makes the group and enables its controllers.
func (g *Group) create() error {
	var err error
	for try := 0; try < createTries; try++ {
		if err = os.MkdirAll(g.Dir, 0o755); err == nil {
			err = g.enable()
		}
		if err == nil || !errors.Is(err, os.ErrNotExist) {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("make cgroup: %w", err)
	}
	return nil
}

// enable enables controllers for the group (v2). systemd may have disabled them in the grandparent while no machine used them.
func (g *Group) enable() error {
	if g.Enable == "" {
		return nil
	}
	parent := filepath.Dir(g.Dir)
	if os.WriteFile(filepath.Join(parent, subtreeControl), []byte(g.Enable), 0) == nil {
		return nil
	}
	if err := os.WriteFile(filepath.Join(filepath.Dir(parent), subtreeControl), []byte(g.Enable), 0); err != nil {
		return fmt.Errorf("enable controllers: %w", err)
	}
	if err := os.WriteFile(filepath.Join(parent, subtreeControl), []byte(g.Enable), 0); err != nil {
		return fmt.Errorf("enable controllers: %w", err)
	}
	return nil
}

// Limit sets every limit and reads it back.
func Limit(groups []Group) error {
	for _, g := range groups {
		for _, s := range g.Settings {
			if err := set(g.Dir, s); err != nil {
				return err
			}
		}
		if g.Devices != nil {
			if err := limitDevices(g.Dir, g.Devices); err != nil {
				return err
			}
		}
	}
	return nil
}

func set(dir string, s Setting) error {
	path := filepath.Join(dir, s.File)
	if err := os.WriteFile(path, []byte(s.Value), 0); err != nil {
		return fmt.Errorf("set limit: %w", err)
	}
	// SECURITY: a kernel may accept a value without applying it.
	got, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read limit back: %w", err)
	}
	if strings.TrimSpace(string(got)) != s.Value {
		return fmt.Errorf("limit %s is %s after %s was written", path, strings.TrimSpace(string(got)), s.Value)
	}
	return nil
}

func limitDevices(dir string, devices []string) error {
	rules := []Setting{{"devices.deny", "a"}}
	for _, device := range devices {
		rules = append(rules, Setting{"devices.allow", device})
	}
	for _, rule := range rules {
		if err := os.WriteFile(filepath.Join(dir, rule.File), []byte(rule.Value), 0); err != nil {
			return fmt.Errorf("limit devices: %w", err)
		}
	}
	got, err := os.ReadFile(filepath.Join(dir, "devices.list"))
	if err != nil {
		return fmt.Errorf("read devices back: %w", err)
	}
	// SECURITY: read back, as with limits.
	if want := strings.Join(devices, "\n") + "\n"; string(got) != want {
		return fmt.Errorf("%s allows %q after %q was written", dir, got, want)
	}
	return nil
}

// Check returns an error unless the process is in, or below, every group.
func Check(groups []Group, pid int) error {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		return fmt.Errorf("the sandbox ended at once: %w", err)
	}
	for _, g := range groups {
		found := false
		for _, line := range strings.Split(string(data), "\n") {
			fields := strings.SplitN(line, ":", 3)
			if len(fields) == 3 && (fields[2] == g.Name || strings.HasPrefix(fields[2], g.Name+"/")) {
				found = true
			}
		}
		if !found {
			return fmt.Errorf("the sandbox is not in its cgroup %s", g.Dir)
		}
	}
	return nil
}

// Members lists the processes of a group and of the groups below it.
func Members(dir string) []int {
	var pids []int
	data, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if err != nil {
		return nil
	}
	for _, field := range strings.Fields(string(data)) {
		if pid, err := strconv.Atoi(field); err == nil && pid > 0 {
			pids = append(pids, pid)
		}
	}
	for _, name := range subgroups(dir) {
		pids = append(pids, Members(filepath.Join(dir, name))...)
	}
	return pids
}

func subgroups(dir string) []string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names
}

// Remove kills every process of the groups and removes the groups, with their parent when it is empty.
func Remove(groups []Group, deadline time.Time) error {
	for i := range groups {
		g := &groups[i]
		for {
			g.Kill()
			// After the kill: a frozen process must not run on.
			if err := g.thaw(); err != nil {
				return err
			}
			err := RemoveTree(g.Dir)
			if err == nil {
				break
			}
			if !errors.Is(err, syscall.EBUSY) || time.Now().After(deadline) {
				return fmt.Errorf("remove cgroup %s: %w", g.Dir, err)
			}
			time.Sleep(500 * time.Microsecond)
		}
		// Fails while the parent holds other machines.
		_ = syscall.Rmdir(filepath.Dir(g.Dir))
	}
	return nil
}

// RemoveTree removes a group and those below it. It fails with EBUSY while one of them has processes.
func RemoveTree(dir string) error {
	for _, name := range subgroups(dir) {
		if err := RemoveTree(filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	if err := syscall.Rmdir(dir); err != nil && err != syscall.ENOENT {
		return err
	}
	return nil
}

// Thaw lets the processes of frozen groups run, so that they can die.
func Thaw(groups []Group) error {
	for i := range groups {
		if err := groups[i].thaw(); err != nil {
			return err
		}
	}
	return nil
}

func (g *Group) thaw() error {
	if g.Thaw == nil {
		return nil
	}
	err := os.WriteFile(filepath.Join(g.Dir, g.Thaw.File), []byte(g.Thaw.Value), 0)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("thaw: %w", err)
	}
	return nil
}

// Kill kills every process of the group once. A process that cannot be killed shows later as a group that cannot be removed.
func (g *Group) Kill() {
	for _, pid := range Members(g.Dir) {
		g.killMember(pid)
	}
}

// killMember kills a process if it is still in the group once its pidfd is open.
func (g *Group) killMember(pid int) {
	p, err := pidfd.Open(pid)
	if err != nil {
		return
	}
	defer p.Close()
	if Check([]Group{*g}, pid) == nil {
		_ = p.Kill()
	}
}
