package main

import (
	"errors"
	"fmt"
	"syscall"
	"unsafe"
)

const (
	prSetDumpable    = 4
	prCapbsetRead    = 23
	prCapbsetDrop    = 24
	prSetSubreaper   = 36
	prSetNoNewPrivs  = 38
	capabilityV3     = 0x20080522
	capSetpcap       = 8
	lastCapabilities = 64
)

// keptCapabilities are what the runner needs to own files, users and processes of the sandbox.
var keptCapabilities = []uint{
	0,  // CHOWN
	1,  // DAC_OVERRIDE
	3,  // FOWNER
	4,  // FSETID
	5,  // KILL
	6,  // SETGID
	7,  // SETUID
	10, // NET_BIND_SERVICE
}

// These are passed to every thread by address and must not move.
var (
	capHeader = struct{ version, pid uint32 }{version: capabilityV3}
	capData   [2]struct{ effective, permitted, inheritable uint32 }
)

// dropCapabilities gives up everything that the runner does not need, in every
// thread and for good.
//
// SECURITY: a program of the sandbox that runs as root there gets at most what
// the bounding set holds; without this it could get all that the runner was
// started with. Not being dumpable keeps the token in memory from other processes.
func dropCapabilities() error {
	if err := limitCapabilities(); err != nil {
		return err
	}
	kept := keptSet()
	for i := range capData {
		part := uint32(kept >> (32 * i))
		capData[i].permitted &= part
		capData[i].effective = capData[i].permitted
		capData[i].inheritable = 0
	}
	_, _, errno := syscall.AllThreadsSyscall(syscall.SYS_CAPSET, uintptr(unsafe.Pointer(&capHeader)), uintptr(unsafe.Pointer(&capData)), 0)
	if errno != 0 {
		return fmt.Errorf("set capabilities: %w", errno)
	}
	if _, _, errno := syscall.AllThreadsSyscall6(syscall.SYS_PRCTL, prSetNoNewPrivs, 1, 0, 0, 0, 0); errno != 0 {
		return fmt.Errorf("set no-new-privileges: %w", errno)
	}
	return prctl(prSetDumpable, 0)
}

// limitCapabilities bounds what any program started from here on can have. The runner itself keeps what it has.
func limitCapabilities() error {
	if _, _, errno := syscall.AllThreadsSyscall(syscall.SYS_GETPID, 0, 0, 0); errno == syscall.ENOTSUP {
		return errors.New("drop capabilities: the runner must be built with CGO_ENABLED=0")
	}
	if err := capget(); err != nil {
		return fmt.Errorf("read capabilities: %w", err)
	}
	if capData[0].effective&(1<<capSetpcap) == 0 {
		return nil
	}
	kept := keptSet()
	for c := uintptr(0); c < lastCapabilities; c++ {
		if kept&(1<<c) != 0 || !inBoundingSet(c) {
			continue
		}
		if _, _, errno := syscall.AllThreadsSyscall(syscall.SYS_PRCTL, prCapbsetDrop, c, 0); errno != 0 {
			return fmt.Errorf("drop capability %d: %w", c, errno)
		}
	}
	return nil
}

func keptSet() uint64 {
	kept := uint64(0)
	for _, c := range keptCapabilities {
		kept |= 1 << c
	}
	return kept
}

func capget() error {
	_, _, errno := syscall.Syscall(syscall.SYS_CAPGET, uintptr(unsafe.Pointer(&capHeader)), uintptr(unsafe.Pointer(&capData)), 0)
	if errno != 0 {
		return errno
	}
	return nil
}

func inBoundingSet(c uintptr) bool {
	present, _, errno := syscall.Syscall(syscall.SYS_PRCTL, prCapbsetRead, c, 0)
	return errno == 0 && present == 1
}

func prctl(option, value uintptr) error {
	if _, _, errno := syscall.Syscall6(syscall.SYS_PRCTL, option, value, 0, 0, 0, 0); errno != 0 {
		return fmt.Errorf("prctl %d: %w", option, errno)
	}
	return nil
}
