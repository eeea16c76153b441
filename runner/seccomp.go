package main

import (
	"fmt"
	"syscall"
	"unsafe"
)

const (
	instructionBytes = 8
	maxInstructions  = 4096 // the kernel's bound
)

// filterCalls has the kernel check every system call of the runner, in every thread and for good. What it starts inherits that.
//
// SECURITY: where an OCI runtime would compile the same filter at every start, the one it compiled once comes with the configuration.
// Nothing of the sandbox's runs before it is in place, and with a filter that the kernel does not take nothing ever does.
func filterCalls(program []byte) error {
	if len(program) == 0 {
		return nil
	}
	if len(program)%instructionBytes != 0 || len(program)/instructionBytes > maxInstructions {
		return fmt.Errorf("filter system calls: %d bytes are no filter", len(program))
	}
	filter := struct {
		length  uint16
		program *byte
	}{uint16(len(program) / instructionBytes), &program[0]}
	const setModeFilter, allThreads = 1, 1
	thread, _, errno := syscall.Syscall(sysSeccomp, setModeFilter, allThreads, uintptr(unsafe.Pointer(&filter)))
	if errno != 0 {
		return fmt.Errorf("filter system calls: %w", errno)
	}
	if thread != 0 {
		return fmt.Errorf("filter system calls: thread %d has a filter of its own", thread)
	}
	return nil
}
