package main

import (
	"syscall"
	"unsafe"
)

const (
	clockBoottime  = 7
	ticksPerSecond = 100 // of /proc/<pid>/stat, on every architecture that Go runs on
)

// bootTicks is the present in the unit of procStat.started.
func bootTicks() int64 {
	var now syscall.Timespec
	if _, _, errno := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, clockBoottime, uintptr(unsafe.Pointer(&now)), 0); errno != 0 {
		return 0
	}
	return now.Nano() / (1e9 / ticksPerSecond)
}
