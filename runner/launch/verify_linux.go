package launch

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"time"
)

// How long a runtime that has returned gets to bring the first process to its end: the last steps are the sandbox's own.
const verifyDeadline = 2 * time.Second

// verify makes sure that a runtime nobody here has tried did what it was told to.
//
// SECURITY: the OCI specification lets a runtime pass over what it does not know, and its exit code does not tell. What holds the
// sandbox is looked at from outside; anything weaker ends here.
func (r *ociRuntime) verify(pid int, users *os.File, ids []idRange) error {
	err := r.checkNamespaces(pid, users, ids)
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("the sandbox ended at once: %w", err)
	}
	if err != nil {
		return err
	}
	deadline := time.Now().Add(verifyDeadline)
	for {
		err := r.checkFirst(pid)
		if err == nil || time.Now().After(deadline) || !alive(pid) {
			return err
		}
		time.Sleep(time.Millisecond)
	}
}

// checkFirst looks at the first process itself, which may not be what it is to become yet.
func (r *ociRuntime) checkFirst(pid int) error {
	if err := checkFilter(pid); err != nil || r.plan.OwnKernel {
		return err
	}
	return checkInherited(pid, r.listener)
}

func (r *ociRuntime) checkNamespaces(pid int, users *os.File, ids []idRange) error {
	if r.plan.OwnKernel {
		if err := checkIDs(pid, ids); err != nil {
			return err
		}
		// There are no other processes of the host, and no cgroups, in a kernel of its own.
		return checkApart(pid, "user", "mnt", "net", "ipc", "uts")
	}
	if err := checkUsers(pid, users); err != nil {
		return err
	}
	return checkApart(pid, "pid", "mnt", "net", "ipc", "uts", "cgroup")
}

func alive(pid int) bool { return syscall.Kill(pid, 0) != syscall.ESRCH }

func checkUsers(pid int, users *os.File) error {
	inside, err := inodeOf(fmt.Sprintf("/proc/%d/ns/user", pid))
	if err != nil {
		return err
	}
	wanted, err := inodeOf(fdPath(int(users.Fd())))
	if err != nil {
		return err
	}
	if inside != wanted {
		return fmt.Errorf("the runtime did not put the sandbox in its user namespace")
	}
	return nil
}

// checkIDs: a user namespace that the runtime made has the session's ids and no others.
func checkIDs(pid int, ids []idRange) error {
	for _, name := range []string{"uid_map", "gid_map"} {
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, name))
		if err != nil {
			return fmt.Errorf("look at the sandbox's ids: %w", err)
		}
		var wanted []string
		for _, r := range ids {
			wanted = append(wanted, fmt.Sprint(r.Inside), fmt.Sprint(r.Outside), fmt.Sprint(r.Size))
		}
		if got := strings.Fields(string(data)); !reflect.DeepEqual(got, wanted) {
			return fmt.Errorf("the runtime gave the sandbox the ids %v in place of %v", got, wanted)
		}
	}
	return nil
}

// checkApart: the process is in none of the launcher's namespaces of these kinds.
func checkApart(pid int, kinds ...string) error {
	for _, kind := range kinds {
		inside, err := inodeOf(fmt.Sprintf("/proc/%d/ns/%s", pid, kind))
		if err != nil {
			return err
		}
		own, err := inodeOf("/proc/thread-self/ns/" + kind)
		if err != nil {
			return err
		}
		if inside == own {
			return fmt.Errorf("the runtime gave the sandbox no %s namespace of its own", kind)
		}
	}
	return nil
}

func inodeOf(path string) (uint64, error) {
	var st syscall.Stat_t
	if err := syscall.Stat(path, &st); err != nil {
		return 0, fmt.Errorf("look at %s: %w", path, err)
	}
	return st.Ino, nil
}

// checkInherited: without its socket the runner serves nobody, and the daemon would wait for it. The runner takes it over under another
// number, so that it may be seen under neither.
func checkInherited(pid int, listener *os.File) error {
	wanted, err := os.Readlink(fdPath(int(listener.Fd())))
	if err != nil {
		return fmt.Errorf("look at the listening socket: %w", err)
	}
	held, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	if err != nil {
		return err
	}
	for _, path := range held {
		if link, err := os.Readlink(path); err == nil && link == wanted {
			return nil
		}
	}
	return fmt.Errorf("the runtime did not hand the listening socket on: it must take --preserve-fds")
}

// checkFilter: no-new-privileges and capabilities are the runner's own to see to as well; a filter that is not there it could not miss.
func checkFilter(pid int) error {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return fmt.Errorf("the sandbox ended at once: %w", err)
	}
	if !strings.Contains(string(data), "\nSeccomp:\t2\n") {
		return fmt.Errorf("the runtime gave the sandbox no filter of system calls")
	}
	return nil
}
