package confine

import (
	"fmt"
	"syscall"
	"unsafe"

	"sandglass/runner/internal/sys"
)

const (
	instructionBytes = 8
	maxInstructions  = 4096 // limit of the kernel
)

// FilterSystemCalls installs a seccomp filter in every thread of the runner. It cannot be removed, and children
// inherit it.
//
// SECURITY: the filter was compiled once and comes with the configuration, instead of being compiled by an OCI
// runtime at every start. No program of the sandbox runs before the filter is installed. If the kernel rejects it,
// the runner does not start.
func FilterSystemCalls(program []byte) error {
	if len(program) == 0 {
		return nil
	}
	if len(program)%instructionBytes != 0 || len(program)/instructionBytes > maxInstructions {
		return fmt.Errorf("filter system calls: invalid filter of %d bytes", len(program))
	}
	filter := struct {
		length  uint16
		program *byte
	}{uint16(len(program) / instructionBytes), &program[0]}
	const setModeFilter, allThreads = 1, 1
	thread, _, errno := syscall.Syscall(sys.SysSeccomp, setModeFilter, allThreads, uintptr(unsafe.Pointer(&filter)))
	if errno != 0 {
		return fmt.Errorf("filter system calls: %w", errno)
	}
	if thread != 0 {
		return fmt.Errorf("filter system calls: thread %d has a filter of its own", thread)
	}
	return nil
}
