package userns

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

const nsGetParent = 0xb702

// Enter runs a program in the parent of a machine's user namespace. A daemon of an ordinary user restarts itself this way while machines
// of an earlier daemon run: only a process in their parent namespace, or above it, may end them.
//
// It execs nsenter, because a program with several threads cannot change its user namespace, and every Go program has several.
// Arguments: the pid of the machine's first process, then the argv.
func Enter(args []string) error {
	if len(args) < 2 {
		return fmt.Errorf("usage: launcher enter PID PROGRAM [ARGUMENT]…")
	}
	pid, err := strconv.Atoi(args[0])
	if err != nil {
		return fmt.Errorf("not a pid: %s", args[0])
	}
	own, err := os.Open(fmt.Sprintf("/proc/%d/ns/user", pid))
	if err != nil {
		return fmt.Errorf("open the machine's user namespace: %w", err)
	}
	// Without close-on-exec: nsenter gets the number.
	parent, _, errno := syscall.Syscall(syscall.SYS_IOCTL, own.Fd(), nsGetParent, 0)
	if errno != 0 {
		return fmt.Errorf("find the parent of the machine's user namespace: %w", errno)
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
