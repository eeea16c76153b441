// Package confine limits the rights of the runner and of all that it starts: capabilities, system calls, processes.
package confine

import (
	"errors"
	"fmt"
	"syscall"
	"unsafe"

	"sandglass/runner/internal/rlimit"
	"sandglass/runner/internal/sys"
)

const (
	prCapbsetRead    = 23
	prCapbsetDrop    = 24
	capabilityV3     = 0x20080522
	capSetpcap       = 8
	lastCapabilities = 64
)

// keptCapabilities are those that the runner needs to manage the files, users and processes of the sandbox.
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

// The system call reads these by address in every thread, so they are global variables.
var (
	capHeader = struct{ version, pid uint32 }{version: capabilityV3}
	capData   [2]struct{ effective, permitted, inheritable uint32 }
)

// DropCapabilities gives up every capability that the runner does not need, in every thread and irrevocably.
//
// SECURITY: a program of the sandbox that runs as root gets at most the capabilities of the bounding set. Without
// this it could get all that the runner was started with. Because the runner is not dumpable, other processes cannot
// read the token in its memory.
func DropCapabilities() error {
	if err := LimitCapabilities(); err != nil {
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
	if _, _, errno := syscall.AllThreadsSyscall6(syscall.SYS_PRCTL, sys.PrSetNoNewPrivs, 1, 0, 0, 0, 0); errno != 0 {
		return fmt.Errorf("set no-new-privileges: %w", errno)
	}
	return sys.Prctl(sys.PrSetDumpable, 0)
}

// LimitCapabilities removes capabilities from the bounding set of every program that is started later. The runner
// keeps its own.
func LimitCapabilities() error {
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

// LimitProcesses limits the processes of the runner's user. It is for a parent that cannot set the limit itself
// without limiting its other processes. 0 means no limit.
func LimitProcesses(most uint64) error {
	if most == 0 {
		return nil
	}
	if err := syscall.Setrlimit(rlimit.Nproc, &syscall.Rlimit{Cur: most, Max: most}); err != nil {
		return fmt.Errorf("limit processes: %w", err)
	}
	return nil
}
