package launch

import (
	"fmt"
	"os"
	"syscall"
)

// An idRange is one line of an id map: ids from Inside on, as the sandbox sees them, are those from Outside on.
type idRange struct {
	Inside  int `json:"inside"`
	Outside int `json:"outside"`
	Size    int `json:"size"`
}

// Queued signals and timers of a whole machine.
const sigpending, machineSignals = 11, 4096

// userNamespace makes a user namespace with the map and returns its descriptor: the one that the machine will live in, and what an
// idmapped mount is told its map with.
//
// SECURITY: its owner is the id that the sandbox's root is outside. The kernel charges queued signals, inotify instances and
// the like to the owner too, in the namespace above: with one owner for all, one sandbox could take what all of them share.
func userNamespace(ids []idRange) (*os.File, error) {
	maps := make([]syscall.SysProcIDMap, len(ids))
	for i, r := range ids {
		// For an idmapped mount the first column is the id on disk and the second the id it is shown as.
		maps[i] = syscall.SysProcIDMap{ContainerID: r.Inside, HostID: r.Outside, Size: r.Size}
	}
	// What is set here bounds all users of the namespace together; what the sandbox's first process has bounds each.
	if err := takeOn([]rlimit{{sigpending, machineSignals}}); err != nil {
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

// newUserNamespace makes one that belongs to this process's own user, and that only serves to say a map.
func newUserNamespace(uids, gids []syscall.SysProcIDMap) (*os.File, error) {
	pid, err := forkInNamespace(uids, gids)
	if err != nil {
		return nil, err
	}
	return namespaceOf(pid)
}

// forkInNamespace makes the process that a namespace needs to be born in. It is this program again, traced, so that it stops at its
// exec before its first instruction.
func forkInNamespace(uids, gids []syscall.SysProcIDMap) (int, error) {
	pid, err := syscall.ForkExec("/proc/self/exe", []string{"runner", "launch"}, &syscall.ProcAttr{
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

// namespaceOf takes over the namespace of such a process, and ends it: the descriptor keeps the namespace.
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

// asUser does the work with another effective user and all rights. Users belong to threads, as far as the kernel is concerned, and
// this program does everything in one.
func asUser(uid int, work func() error) error {
	const setSecurebits, noSetuidFixup, same = 28, 4, ^uintptr(0)
	if _, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, setSecurebits, noSetuidFixup, 0); errno != 0 {
		return fmt.Errorf("keep rights as another user: %w", errno)
	}
	if _, _, errno := syscall.RawSyscall(syscall.SYS_SETRESUID, same, uintptr(uid), same); errno != 0 {
		return fmt.Errorf("become user %d: %w", uid, errno)
	}
	err := work()
	if _, _, errno := syscall.RawSyscall(syscall.SYS_SETRESUID, same, 0, same); errno != 0 {
		return fmt.Errorf("become root again: %w", errno)
	}
	if _, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, setSecurebits, 0, 0); errno != 0 {
		return fmt.Errorf("drop the other user's rights: %w", errno)
	}
	return err
}
