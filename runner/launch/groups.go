package launch

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A group is one cgroup directory of the machine: one per hierarchy on cgroup v1, one in all on v2.
type group struct {
	Dir string `json:"dir"`
	// Name is the path as /proc/<pid>/cgroup shows it.
	Name     string    `json:"name"`
	Settings []setting `json:"settings"`
	// Thaw is the freezer's file and the word that lets its processes run again.
	Thaw *setting `json:"thaw,omitempty"`
	// Devices are those that its processes may use; nil for a group that does not say.
	Devices []string `json:"devices,omitempty"`
	// Enable is what the folder above must switch on for this group's files to exist (v2), or "".
	Enable string `json:"enable"`
	// Join: this process enters the group before it starts the runtime, so that the sandbox is born in it.
	Join bool `json:"join"`
}

const subtreeControl = "cgroup.subtree_control"

type setting struct {
	File  string `json:"file"`
	Value string `json:"value"`
}

// enterGroups makes the groups and joins those that are to be joined.
func enterGroups(groups []group) error {
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

// How often a group is tried to be made. The folder above goes with the last machine in it, maybe just now.
const createTries = 10

// create makes the group with its controllers.
func (g *group) create() error {
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

// enable switches controllers on for the group (v2). systemd may have switched them off further up while no machine used them.
func (g *group) enable() error {
	if g.Enable == "" {
		return nil
	}
	above := filepath.Dir(g.Dir)
	if os.WriteFile(filepath.Join(above, subtreeControl), []byte(g.Enable), 0) == nil {
		return nil
	}
	if err := os.WriteFile(filepath.Join(filepath.Dir(above), subtreeControl), []byte(g.Enable), 0); err != nil {
		return fmt.Errorf("enable controllers: %w", err)
	}
	if err := os.WriteFile(filepath.Join(above, subtreeControl), []byte(g.Enable), 0); err != nil {
		return fmt.Errorf("enable controllers: %w", err)
	}
	return nil
}

// limitGroups sets every limit and reads it back.
func limitGroups(groups []group) error {
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

func set(dir string, s setting) error {
	path := filepath.Join(dir, s.File)
	if err := os.WriteFile(path, []byte(s.Value), 0); err != nil {
		return fmt.Errorf("set limit: %w", err)
	}
	// SECURITY: a kernel may take a value and not keep it; a limit that does not hold is no limit.
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
	rules := []setting{{"devices.deny", "a"}}
	for _, device := range devices {
		rules = append(rules, setting{"devices.allow", device})
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
	// SECURITY: as with limits.
	if want := strings.Join(devices, "\n") + "\n"; string(got) != want {
		return fmt.Errorf("%s allows %q after %q was written", dir, got, want)
	}
	return nil
}

// checkGroups makes sure that the machine's first process is in, or below, every group.
func checkGroups(groups []group, pid int) error {
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

// members lists the processes of a group and of those below it.
func members(dir string) []int {
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
		pids = append(pids, members(filepath.Join(dir, name))...)
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

// removeGroups ends every process of the groups and removes them, with the folder above when it is empty.
func removeGroups(groups []group, deadline time.Time) error {
	for _, g := range groups {
		for {
			for _, pid := range members(g.Dir) {
				killMember(g, pid)
			}
			if g.Thaw != nil {
				// Only after the kill: a frozen process must not get to run on.
				err := os.WriteFile(filepath.Join(g.Dir, g.Thaw.File), []byte(g.Thaw.Value), 0)
				if err != nil && !errors.Is(err, os.ErrNotExist) {
					return fmt.Errorf("thaw: %w", err)
				}
			}
			err := removeTree(g.Dir)
			if err == nil {
				break
			}
			if !errors.Is(err, syscall.EBUSY) || time.Now().After(deadline) {
				return fmt.Errorf("remove cgroup %s: %w", g.Dir, err)
			}
			time.Sleep(500 * time.Microsecond)
		}
		// Other machines may be in the folder above: then it stays.
		_ = syscall.Rmdir(filepath.Dir(g.Dir))
	}
	return nil
}

func removeTree(dir string) error {
	for _, name := range subgroups(dir) {
		if err := removeTree(filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	if err := syscall.Rmdir(dir); err != nil && err != syscall.ENOENT {
		return err
	}
	return nil
}
