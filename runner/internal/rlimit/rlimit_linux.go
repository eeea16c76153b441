// Package rlimit sets resource limits (setrlimit) of this process and of others.
package rlimit

import (
	"fmt"
	"syscall"
	"unsafe"
)

// Resources that package syscall has no name for. The numbers are the same on x64 and arm64.
const (
	Nproc      = 6
	Sigpending = 11
)

// A Limit is one resource with its soft and hard limit, which are equal.
type Limit struct {
	Resource int    `json:"resource"`
	Limit    uint64 `json:"limit"`
}

// Set sets limits of this process. Processes that it starts inherit them.
func Set(limits []Limit) error {
	for _, l := range limits {
		if err := syscall.Setrlimit(l.Resource, &syscall.Rlimit{Cur: l.Limit, Max: l.Limit}); err != nil {
			return fmt.Errorf("set resource limit %d to %d: %w", l.Resource, l.Limit, err)
		}
	}
	return nil
}

// SetProcess sets a limit of another process. Processes that it starts from then on inherit it.
func SetProcess(pid int, l Limit) error {
	limit := syscall.Rlimit{Cur: l.Limit, Max: l.Limit}
	if _, _, errno := syscall.Syscall6(syscall.SYS_PRLIMIT64, uintptr(pid), uintptr(l.Resource), uintptr(unsafe.Pointer(&limit)), 0, 0, 0); errno != 0 {
		return fmt.Errorf("set resource limit %d of process %d to %d: %w", l.Resource, pid, l.Limit, errno)
	}
	return nil
}
