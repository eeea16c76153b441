package launch

import (
	"fmt"
	"syscall"
	"unsafe"
)

// filterOf gives the system call filter that a process runs under, as the kernel has it. The process stands still meanwhile.
// It takes all rights on the host and none of our own restricted: nil where the kernel refuses.
func filterOf(pid int) ([]byte, error) {
	const seize, interrupt, detach, getFilter, anyChild = 0x4206, 0x4207, 17, 0x420c, 0x40000000
	trace := func(request, data uintptr) (uintptr, error) {
		n, _, errno := syscall.RawSyscall6(syscall.SYS_PTRACE, request, uintptr(pid), 0, data, 0, 0)
		if errno != 0 {
			return 0, fmt.Errorf("read the filter of process %d: %w", pid, errno)
		}
		return n, nil
	}
	if _, err := trace(seize, 0); err != nil {
		return nil, err
	}
	defer trace(detach, 0)
	if _, err := trace(interrupt, 0); err != nil {
		return nil, err
	}
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(pid, &status, anyChild, nil); err != nil {
		return nil, fmt.Errorf("stop process %d: %w", pid, err)
	}
	length, err := trace(getFilter, 0)
	if err != nil || length == 0 {
		return nil, err
	}
	program := make([]byte, 8*length)
	if _, err := trace(getFilter, uintptr(unsafe.Pointer(&program[0]))); err != nil {
		return nil, err
	}
	return program, nil
}
