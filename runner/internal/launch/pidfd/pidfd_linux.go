// Package pidfd names processes without the risk of pid reuse: by descriptor while this process runs, and by pid, start time and boot id
// beyond that.
package pidfd

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

// System calls that the standard library has no name for. The numbers are the same on x64 and arm64.
const (
	sysPidfdSendSignal = 424
	sysPidfdOpen       = 434
)

// A Handle is a pidfd. The kernel may give the pid to another process, but the descriptor stays with this one.
type Handle struct{ fd int }

func Open(pid int) (Handle, error) {
	fd, _, errno := syscall.Syscall(sysPidfdOpen, uintptr(pid), 0, 0)
	if errno != 0 {
		return Handle{}, errno
	}
	return Handle{int(fd)}, nil
}

func (h Handle) Close() { syscall.Close(h.fd) }

// Kill sends SIGKILL. A process that has ended already is no error.
func (h Handle) Kill() error {
	_, _, errno := syscall.Syscall6(sysPidfdSendSignal, uintptr(h.fd), uintptr(syscall.SIGKILL), 0, 0, 0, 0)
	if errno != 0 && errno != syscall.ESRCH {
		return errno
	}
	return nil
}

type pollFd struct {
	fd              int32
	events, revents int16
}

// Wait returns when the process has ended. If it was the first process of a pid namespace, all others in that namespace have ended too.
func (h Handle) Wait(deadline time.Time) error {
	for {
		left := time.Until(deadline)
		if left <= 0 {
			return fmt.Errorf("process did not end in time")
		}
		timeout := syscall.NsecToTimespec(int64(left))
		poll := pollFd{fd: int32(h.fd), events: 1}
		n, _, errno := syscall.Syscall6(syscall.SYS_PPOLL, uintptr(unsafe.Pointer(&poll)), 1, uintptr(unsafe.Pointer(&timeout)), 0, 0, 0)
		if errno != 0 && errno != syscall.EINTR {
			return errno
		}
		if errno == 0 && n == 1 {
			return nil
		}
	}
}

// An Identity names one process for good. It can be stored and used after a restart of the daemon or of the host.
type Identity struct {
	Pid       int    `json:"pid"`
	StartTime uint64 `json:"start_time"` // clock ticks after boot; no two processes with the same pid have the same one
	BootID    string `json:"boot_id"`
}

// Identify reads the identity of a running process.
func Identify(pid int) (*Identity, error) {
	ticks, err := startTime(pid)
	if err != nil {
		return nil, fmt.Errorf("process %d ended at once: %w", pid, err)
	}
	boot, err := bootID()
	if err != nil {
		return nil, err
	}
	return &Identity{Pid: pid, StartTime: ticks, BootID: boot}, nil
}

func bootID() (string, error) {
	data, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("read boot id: %w", err)
	}
	return strings.TrimSpace(string(data)), nil
}

// startTime is field 22 of /proc/<pid>/stat. The command name before it may contain spaces and brackets.
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

// Open returns a handle of the process, or nil when it has ended. The start time is compared after the descriptor is open, so that the
// descriptor cannot belong to a later process of the same pid.
func (id *Identity) Open() (*Handle, error) {
	boot, err := bootID()
	if err != nil {
		return nil, err
	}
	if id.Pid <= 1 || id.BootID != boot {
		return nil, nil
	}
	h, err := Open(id.Pid)
	if err != nil {
		if errors.Is(err, syscall.ESRCH) {
			return nil, nil
		}
		return nil, fmt.Errorf("open process %d: %w", id.Pid, err)
	}
	ticks, err := startTime(id.Pid)
	if err != nil || ticks != id.StartTime {
		h.Close()
		return nil, nil
	}
	return &h, nil
}

// IsAlive tells whether a process of this number exists, a zombie included.
func IsAlive(pid int) bool { return syscall.Kill(pid, 0) != syscall.ESRCH }
