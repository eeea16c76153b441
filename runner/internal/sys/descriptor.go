package sys

import (
	"fmt"
	"os"
	"strconv"
	"syscall"
	"unsafe"
)

func Ioctl(fd int, request uintptr, arg unsafe.Pointer) error {
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, uintptr(fd), request, uintptr(arg)); errno != 0 {
		return errno
	}
	return nil
}

// MemoryFile creates an unnamed file in memory.
func MemoryFile(name string) (*os.File, error) {
	text, err := syscall.BytePtrFromString(name)
	if err != nil {
		return nil, err
	}
	const closeOnExec = 1
	fd, _, errno := syscall.Syscall(sysMemfdCreate, uintptr(unsafe.Pointer(text)), closeOnExec, 0)
	if errno != 0 {
		return nil, fmt.Errorf("make memory file: %w", errno)
	}
	return os.NewFile(fd, name), nil
}

// RawFD returns the descriptor of a file. Unlike Fd, it does not switch the file to blocking mode.
func RawFD(file *os.File) uintptr {
	fd := ^uintptr(0)
	if raw, err := file.SyscallConn(); err == nil {
		raw.Control(func(n uintptr) { fd = n })
	}
	return fd
}

// Pipe creates a pipe whose ends block, as programs expect. os.Pipe creates one whose ends do not. Use Nonblocking
// for the end that the runner keeps.
func Pipe() (r, w *os.File, err error) {
	var fds [2]int
	if err := syscall.Pipe2(fds[:], syscall.O_CLOEXEC); err != nil {
		return nil, nil, fmt.Errorf("make pipe: %w", err)
	}
	return os.NewFile(uintptr(fds[0]), "pipe"), os.NewFile(uintptr(fds[1]), "pipe"), nil
}

// Nonblocking replaces an end of a Pipe by a file that waits through the Go runtime instead of occupying a thread.
func Nonblocking(file *os.File) *os.File {
	fd, err := syscall.Dup(int(RawFD(file)))
	if err != nil {
		return file
	}
	syscall.CloseOnExec(fd)
	file.Close()
	syscall.SetNonblock(fd, true)
	return os.NewFile(uintptr(fd), "pipe")
}

// CloseOnExec keeps the descriptors that this process inherited from being passed to its children.
//
// SECURITY: the parent process may have left any file open, even one of the host.
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

// WriteNow writes the bytes that fit at this moment and drops the rest. The file must be nonblocking.
func WriteNow(file *os.File, text string) {
	raw, err := file.SyscallConn()
	if err != nil {
		return // closed
	}
	raw.Control(func(fd uintptr) {
		for {
			if _, err := syscall.Write(int(fd), []byte(text)); err != syscall.EINTR {
				return
			}
		}
	})
}

// Events of poll.
const (
	pollFailed       = 0x8
	pollHungUp       = 0x10
	pollPeerFinished = 0x2000
)

// HasHungUp tells whether the other side of a socket has stopped sending.
func HasHungUp(fd int32) bool {
	return poll(fd, pollPeerFinished)&(pollPeerFinished|pollHungUp|pollFailed) != 0
}

// IsDead tells whether a socket was reset or is finished in both directions, even if some bytes are still unread.
func IsDead(fd int32) bool {
	return poll(fd, 0)&(pollHungUp|pollFailed) != 0
}

// poll returns the events of a descriptor at this moment.
func poll(fd int32, events int16) int16 {
	entry := struct {
		fd              int32
		events, revents int16
	}{fd: fd, events: events}
	var atOnce syscall.Timespec
	_, _, errno := syscall.Syscall6(syscall.SYS_PPOLL, uintptr(unsafe.Pointer(&entry)), 1, uintptr(unsafe.Pointer(&atOnce)), 0, 0, 0)
	if errno != 0 {
		return 0
	}
	return entry.revents
}
