package launch

import (
	"fmt"
	"syscall"
	"unsafe"
)

// An rlimit is one of the kernel's limits of a process.
type rlimit struct {
	Resource int    `json:"resource"`
	Limit    uint64 `json:"limit"`
}

// takeOn sets limits of this process, which what it starts inherits. A runtime could not set them from outside without
// more rights: the sandbox's user namespace does not belong to root.
func takeOn(limits []rlimit) error {
	for _, l := range limits {
		if err := syscall.Setrlimit(l.Resource, &syscall.Rlimit{Cur: l.Limit, Max: l.Limit}); err != nil {
			return fmt.Errorf("set limit %d to %d: %w", l.Resource, l.Limit, err)
		}
	}
	return nil
}

// limitProcess sets a limit of another process, which what it starts from then on inherits.
func limitProcess(pid int, l rlimit) error {
	limit := syscall.Rlimit{Cur: l.Limit, Max: l.Limit}
	if _, _, errno := syscall.Syscall6(syscall.SYS_PRLIMIT64, uintptr(pid), uintptr(l.Resource), uintptr(unsafe.Pointer(&limit)), 0, 0, 0); errno != 0 {
		return fmt.Errorf("set limit %d to %d: %w", l.Resource, l.Limit, errno)
	}
	return nil
}
