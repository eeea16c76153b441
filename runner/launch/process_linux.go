package launch

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"
)

// A pidfd names one process for good: its number may be given to another, the descriptor never is.
type pidfd struct{ fd int }

func openPidfd(pid int) (pidfd, error) {
	fd, _, errno := syscall.Syscall(sysPidfdOpen, uintptr(pid), 0, 0)
	if errno != 0 {
		return pidfd{}, errno
	}
	return pidfd{int(fd)}, nil
}

func (p pidfd) close() { syscall.Close(p.fd) }

func (p pidfd) kill() error {
	_, _, errno := syscall.Syscall6(sysPidfdSendSignal, uintptr(p.fd), uintptr(syscall.SIGKILL), 0, 0, 0, 0)
	if errno != 0 && errno != syscall.ESRCH {
		return errno
	}
	return nil
}

type pollFd struct {
	fd              int32
	events, revents int16
}

// wait returns when the process has ended, and with it, if it was the first of its pid namespace, every other in there.
func (p pidfd) wait(deadline time.Time) error {
	for {
		left := time.Until(deadline)
		if left <= 0 {
			return fmt.Errorf("it did not end")
		}
		timeout := syscall.NsecToTimespec(int64(left))
		poll := pollFd{fd: int32(p.fd), events: 1}
		n, _, errno := syscall.Syscall6(syscall.SYS_PPOLL, uintptr(unsafe.Pointer(&poll)), 1, uintptr(unsafe.Pointer(&timeout)), 0, 0, 0)
		if errno != 0 && errno != syscall.EINTR {
			return errno
		}
		if errno == 0 && n == 1 {
			return nil
		}
	}
}

// describe notes what tells this process from any later one of the same number.
func describe(pid int) (*state, error) {
	ticks, err := startTime(pid)
	if err != nil {
		return nil, fmt.Errorf("the sandbox ended at once: %w", err)
	}
	boot, err := bootID()
	if err != nil {
		return nil, err
	}
	return &state{Pid: pid, StartTime: ticks, BootID: boot}, nil
}

func bootID() (string, error) {
	data, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("read boot id: %w", err)
	}
	return strings.TrimSpace(string(data)), nil
}

// startTime is field 22 of /proc/<pid>/stat; the name before it may itself contain spaces and brackets.
func startTime(pid int) (uint64, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	text := string(data)
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	if len(fields) < 20 {
		return 0, errors.New("unexpected form of /proc/<pid>/stat")
	}
	return strconv.ParseUint(fields[19], 10, 64)
}

// open finds the process again, or nil when it is gone. The number is checked after the descriptor is held.
func (s *state) open() (*pidfd, error) {
	boot, err := bootID()
	if err != nil {
		return nil, err
	}
	if s.Pid <= 1 || s.BootID != boot {
		return nil, nil
	}
	p, err := openPidfd(s.Pid)
	if err != nil {
		if errors.Is(err, syscall.ESRCH) {
			return nil, nil
		}
		return nil, fmt.Errorf("open process %d: %w", s.Pid, err)
	}
	ticks, err := startTime(s.Pid)
	if err != nil || ticks != s.StartTime {
		p.close()
		return nil, nil
	}
	return &p, nil
}

// killMember kills a process if, once held, it is still in the group.
func killMember(g group, pid int) {
	p, err := openPidfd(pid)
	if err != nil {
		return
	}
	defer p.close()
	if checkGroups([]group{g}, pid) == nil {
		// A process that cannot be killed shows as a group that cannot be removed.
		_ = p.kill()
	}
}

// CloseOnExec keeps the descriptors that this process was started with from its children.
//
// SECURITY: whoever started it may have left any file open, of the host even.
func CloseOnExec() error {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return fmt.Errorf("list descriptors: %w", err)
	}
	for _, entry := range entries {
		if fd, err := strconv.Atoi(entry.Name()); err == nil && fd > 2 {
			syscall.CloseOnExec(fd)
		}
	}
	return nil
}
