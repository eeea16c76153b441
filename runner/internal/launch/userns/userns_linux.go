// Package userns makes user namespaces with id maps.
package userns

import (
	"fmt"
	"os"
	"syscall"

	"sandglass/runner/internal/rlimit"
)

// A Range is one line of an id map: ids from Inside on, as the sandbox sees them, are ids from Outside on.
type Range struct {
	Inside  int `json:"inside"`
	Outside int `json:"outside"`
	Size    int `json:"size"`
}

// Queued signals and timers of all users of a machine together.
const machineSignals = 4096

// New makes the user namespace of a machine and returns its descriptor. The same descriptor is the id map of the machine's idmapped
// mounts.
//
// SECURITY: the owner of the namespace is the id that the sandbox's root has outside. The kernel also charges queued signals, inotify
// instances and the like to the owner, in the parent namespace: with one owner for all, one sandbox could use up what all of them share.
func New(ids []Range) (*os.File, error) {
	if len(ids) == 0 {
		return nil, fmt.Errorf("make a user namespace: no ids")
	}
	maps := make([]syscall.SysProcIDMap, len(ids))
	for i, r := range ids {
		// For an idmapped mount the first column is the id on disk and the second the id that is shown.
		maps[i] = syscall.SysProcIDMap{ContainerID: r.Inside, HostID: r.Outside, Size: r.Size}
	}
	// This limit bounds all users of the namespace together; the limit of the sandbox's first process bounds each.
	if err := rlimit.Set([]rlimit.Limit{{Resource: rlimit.Sigpending, Limit: machineSignals}}); err != nil {
		return nil, err
	}
	var pid int
	err := asUser(ids[0].Outside, func() (err error) {
		pid, err = forkInNamespace(maps, maps)
		return err
	})
	if err != nil {
		return nil, err
	}
	return namespaceOf(pid)
}

// NewMap makes a user namespace that serves only as an id map. It belongs to this process's own user.
func NewMap(uids, gids []syscall.SysProcIDMap) (*os.File, error) {
	pid, err := forkInNamespace(uids, gids)
	if err != nil {
		return nil, err
	}
	return namespaceOf(pid)
}

// forkInNamespace starts the process that a new namespace needs. It is this program again, traced, so that it stops at its exec before its
// first instruction.
func forkInNamespace(uids, gids []syscall.SysProcIDMap) (int, error) {
	pid, err := syscall.ForkExec("/proc/self/exe", []string{"launcher"}, &syscall.ProcAttr{
		Sys: &syscall.SysProcAttr{
			Cloneflags: syscall.CLONE_NEWUSER, UidMappings: uids, GidMappings: gids, GidMappingsEnableSetgroups: true,
			Ptrace: true, Pdeathsig: syscall.SIGKILL,
		},
	})
	if err != nil {
		return 0, fmt.Errorf("make a user namespace: %w", err)
	}
	return pid, nil
}

// namespaceOf opens the user namespace of such a process and ends the process. The descriptor keeps the namespace alive.
func namespaceOf(pid int) (*os.File, error) {
	ns, openErr := os.Open(fmt.Sprintf("/proc/%d/ns/user", pid))
	killErr := syscall.Kill(pid, syscall.SIGKILL)
	var status syscall.WaitStatus
	for {
		_, err := syscall.Wait4(pid, &status, 0, nil)
		if err == syscall.EINTR || (err == nil && status.Stopped()) {
			continue
		}
		if killErr == nil {
			killErr = err
		}
		break
	}
	if openErr != nil {
		return nil, fmt.Errorf("open the user namespace: %w", openErr)
	}
	if killErr != nil {
		ns.Close()
		return nil, fmt.Errorf("end the user namespace's first process: %w", killErr)
	}
	return ns, nil
}

// asUser does the work as another effective user with all capabilities. Credentials belong to threads, so the caller must be locked to
// its thread.
func asUser(uid int, work func() error) error {
	const setSecurebits, noSetuidFixup, same = 28, 4, ^uintptr(0)
	if _, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, setSecurebits, noSetuidFixup, 0); errno != 0 {
		return fmt.Errorf("keep capabilities as another user: %w", errno)
	}
	if _, _, errno := syscall.RawSyscall(syscall.SYS_SETRESUID, same, uintptr(uid), same); errno != 0 {
		return fmt.Errorf("become user %d: %w", uid, errno)
	}
	err := work()
	if _, _, errno := syscall.RawSyscall(syscall.SYS_SETRESUID, same, 0, same); errno != 0 {
		return fmt.Errorf("become root again: %w", errno)
	}
	if _, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, setSecurebits, 0, 0); errno != 0 {
		return fmt.Errorf("reset securebits: %w", errno)
	}
	return err
}
