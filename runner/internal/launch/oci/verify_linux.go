package oci

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"time"

	"sandglass/runner/internal/launch/mount"
	"sandglass/runner/internal/launch/pidfd"
	"sandglass/runner/internal/launch/userns"
)

// How long the first process may take, after the runtime has returned, to install its filter and exec the runner.
const verifyDeadline = 2 * time.Second

// verify checks from outside what an untested runtime made.
//
// SECURITY: the OCI specification lets a runtime ignore what it does not know, and its exit status does not tell. A sandbox with less
// isolation than the bundle asks for is refused.
func (r *ociRuntime) verify(pid int, users *os.File, ids []userns.Range) error {
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
		if err == nil || time.Now().After(deadline) || !pidfd.IsAlive(pid) {
			return err
		}
		time.Sleep(time.Millisecond)
	}
}

// checkFirst checks the first process, which may not have executed the runner yet.
func (r *ociRuntime) checkFirst(pid int) error {
	if err := checkFilter(pid); err != nil || r.plan.OwnKernel {
		return err
	}
	return checkInherited(pid, r.listener)
}

func (r *ociRuntime) checkNamespaces(pid int, users *os.File, ids []userns.Range) error {
	if r.plan.OwnKernel {
		if err := checkIDs(pid, ids); err != nil {
			return err
		}
		// A kernel of its own shows no processes and no cgroups of the host, so it needs no such namespaces.
		return checkApart(pid, "user", "mnt", "net", "ipc", "uts")
	}
	if err := checkUsers(pid, users); err != nil {
		return err
	}
	return checkApart(pid, "pid", "mnt", "net", "ipc", "uts", "cgroup")
}

func checkUsers(pid int, users *os.File) error {
	inside, err := inodeOf(fmt.Sprintf("/proc/%d/ns/user", pid))
	if err != nil {
		return err
	}
	wanted, err := inodeOf(mount.FDPath(int(users.Fd())))
	if err != nil {
		return err
	}
	if inside != wanted {
		return fmt.Errorf("the runtime did not put the sandbox in its user namespace")
	}
	return nil
}

// checkIDs checks that the user namespace that the runtime made has the session's ids and no others.
func checkIDs(pid int, ids []userns.Range) error {
	for _, name := range []string{"uid_map", "gid_map"} {
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, name))
		if err != nil {
			return fmt.Errorf("read the sandbox's id map: %w", err)
		}
		var wanted []string
		for _, r := range ids {
			wanted = append(wanted, fmt.Sprint(r.Inside), fmt.Sprint(r.Outside), fmt.Sprint(r.Size))
		}
		if got := strings.Fields(string(data)); !reflect.DeepEqual(got, wanted) {
			return fmt.Errorf("the runtime gave the sandbox the ids %v instead of %v", got, wanted)
		}
	}
	return nil
}

// checkApart checks that the process shares no namespace of these kinds with the launcher.
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
		return 0, fmt.Errorf("stat %s: %w", path, err)
	}
	return st.Ino, nil
}

// checkInherited checks that the first process has the listening socket. Without it the daemon would wait for a runner that cannot listen.
// The runner moves the socket to another number and may be seen in between with neither, so the caller repeats the check.
func checkInherited(pid int, listener *os.File) error {
	wanted, err := os.Readlink(mount.FDPath(int(listener.Fd())))
	if err != nil {
		return fmt.Errorf("read the listening socket: %w", err)
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

// checkFilter checks that the process has a seccomp filter. The runner itself checks no-new-privileges and capabilities, but cannot notice a
// missing filter.
func checkFilter(pid int) error {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return fmt.Errorf("the sandbox ended at once: %w", err)
	}
	if !strings.Contains(string(data), "\nSeccomp:\t2\n") {
		return fmt.Errorf("the runtime gave the sandbox no seccomp filter")
	}
	return nil
}
