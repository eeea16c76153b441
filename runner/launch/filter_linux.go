package launch

import (
	"errors"
	"fmt"
	"syscall"
	"time"
	"unsafe"
)

// How long a process gets to stand still. Beyond that its filter is not worth the wait.
const stopDeadline = 200 * time.Millisecond

// filterOf gives the system call filter that a process runs under, as the kernel has it. The process stands still meanwhile.
// The kernel tells only root of the host, and only one that is under no filter itself.
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

// stopTraced stops a process. One that is about to become another program forgets that it was asked to: it is asked again.
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
	return errors.New("it did not stop")
}

func ptrace(request uintptr, pid int, data uintptr) (uintptr, error) {
	result, _, errno := syscall.RawSyscall6(syscall.SYS_PTRACE, request, uintptr(pid), 0, data, 0, 0)
	if errno != 0 {
		return 0, fmt.Errorf("trace process %d: %w", pid, errno)
	}
	return result, nil
}
