package launch

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

const nsGetParent = 0xb702

// enter runs a daemon again in the user namespace that an earlier one made its machines from, found through a machine that still
// runs. From a namespace of its own a daemon could not end them: only their parent namespace, and those above it, may.
//
// It becomes nsenter, because a program with several threads cannot change its user namespace, and every Go program has several.
// Arguments: the machine's first process, then the argv.
func enter(args []string) error {
	if len(args) < 2 {
		return fmt.Errorf("usage: runner launch enter PID PROGRAM [ARGUMENT]…")
	}
	pid, err := strconv.Atoi(args[0])
	if err != nil {
		return fmt.Errorf("not a process: %s", args[0])
	}
	own, err := os.Open(fmt.Sprintf("/proc/%d/ns/user", pid))
	if err != nil {
		return fmt.Errorf("open the machine's user namespace: %w", err)
	}
	// Not closed on exec: nsenter is told its number.
	parent, _, errno := syscall.Syscall(syscall.SYS_IOCTL, own.Fd(), nsGetParent, 0)
	if errno != 0 {
		return fmt.Errorf("find the namespace above the machine's: %w", errno)
	}
	if _, _, errno := syscall.Syscall(syscall.SYS_FCNTL, parent, syscall.F_SETFD, 0); errno != 0 {
		return fmt.Errorf("keep the namespace open: %w", errno)
	}
	argv := append([]string{"nsenter", fmt.Sprintf("--user=/proc/self/fd/%d", parent), "--", "unshare", "--mount", "--propagation", "slave", "--"}, args[1:]...)
	for _, dir := range []string{"/usr/bin", "/bin"} {
		err = syscall.Exec(filepath.Join(dir, argv[0]), argv, os.Environ())
	}
	return fmt.Errorf("run nsenter: %w", err)
}
