package oci

import (
	"errors"
	"fmt"
	"syscall"
	"time"
	"unsafe"
)

// How long to wait until a process has stopped. The filter only saves time at the next start, so a longer wait is not worth it.
const stopDeadline = 200 * time.Millisecond

// filterOf reads the seccomp program of a process from the kernel. The process is stopped meanwhile. Only root of the host may read it, and
// only from a process without a filter.
func filterOf(pid int) ([]byte, error) {
	const seize, detach, getFilter = 0x4206, 17, 0x420c
	if _, err := ptrace(seize, pid, 0); err != nil {
		return nil, err
	}
	defer ptrace(detach, pid, 0)
	if err := stopTraced(pid); err != nil {
		return nil, err
	}
	length, err := ptrace(getFilter, pid, 0)
	if err != nil || length == 0 {
		return nil, err
	}
	program := make([]byte, 8*length)
	if _, err := ptrace(getFilter, pid, uintptr(unsafe.Pointer(&program[0]))); err != nil {
		return nil, err
	}
	return program, nil
}

// stopTraced stops a process. An exec discards the request to stop, so the request is repeated.
func stopTraced(pid int) error {
	const interrupt, anyChild = 0x4207, 0x40000000
	for deadline := time.Now().Add(stopDeadline); time.Now().Before(deadline); time.Sleep(500 * time.Microsecond) {
		if _, err := ptrace(interrupt, pid, 0); err != nil {
			return err
		}
		var status syscall.WaitStatus
		stopped, err := syscall.Wait4(pid, &status, syscall.WNOHANG|anyChild, nil)
		if err != nil && err != syscall.EINTR {
			return fmt.Errorf("wait for process %d: %w", pid, err)
		}
		if stopped == pid && status.Stopped() {
			return nil
		}
		if stopped == pid {
			break
		}
	}
	return errors.New("process did not stop in time")
}

func ptrace(request uintptr, pid int, data uintptr) (uintptr, error) {
	result, _, errno := syscall.RawSyscall6(syscall.SYS_PTRACE, request, uintptr(pid), 0, data, 0, 0)
	if errno != 0 {
		return 0, fmt.Errorf("trace process %d: %w", pid, errno)
	}
	return result, nil
}
