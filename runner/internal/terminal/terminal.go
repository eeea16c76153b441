// Package terminal creates pseudo terminals and filters the output that is shown to a terminal again.
package terminal

import (
	"fmt"
	"os"
	"sync"
	"syscall"
	"unsafe"

	"sandglass/runner/internal/account"
	"sandglass/runner/internal/sys"
	"sandglass/runner/internal/wire"
)

// Size is the size of a terminal, as requests contain it.
type Size struct {
	Cols int `json:"cols"`
	Rows int `json:"rows"`
}

const ioctlGetPeer = 0x5441 // TIOCGPTPEER: opens the slave without a path, so /dev/pts need not be mounted

const (
	defaultRows = 40
	defaultCols = 120
)

type winsize struct{ rows, cols, x, y uint16 }

// A Terminal is the master side of a pseudo terminal. It does not block: File waits through the Go runtime, fd is for
// direct reads and ioctls.
type Terminal struct {
	File *os.File

	mu sync.RWMutex
	fd int // -1 once closed, because the number may belong to another file then
}

// Close closes the terminal. Later calls fail with EBADF.
func (t *Terminal) Close() {
	t.mu.Lock()
	t.fd = -1
	t.mu.Unlock()
	t.File.Close() // waits for reads, which hold the lock
}

// Read returns the bytes that are there now, or EAGAIN.
func (t *Terminal) Read(p []byte) (int, error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for {
		n, err := syscall.Read(t.fd, p)
		if err != syscall.EINTR {
			return n, err
		}
	}
}

func (t *Terminal) ioctl(request uintptr, arg unsafe.Pointer) error {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return sys.Ioctl(t.fd, request, arg)
}

// Open creates a pseudo terminal and opens its slave side, which belongs to owner. 0 rows or columns mean the
// default.
func Open(rows, cols int, owner *account.User) (master *Terminal, slave *os.File, err error) {
	if rows == 0 {
		rows = defaultRows
	}
	if cols == 0 {
		cols = defaultCols
	}
	fd, err := syscall.Open("/dev/ptmx", syscall.O_RDWR|syscall.O_NOCTTY|syscall.O_CLOEXEC|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("open /dev/ptmx: %w", err)
	}
	unlocked := int32(0)
	if err := sys.Ioctl(fd, syscall.TIOCSPTLCK, unsafe.Pointer(&unlocked)); err != nil {
		syscall.Close(fd)
		return nil, nil, fmt.Errorf("unlock terminal: %w", err)
	}
	peer, err := openPeer(fd)
	if err != nil {
		syscall.Close(fd)
		return nil, nil, fmt.Errorf("open terminal: %w", err)
	}
	if owner != nil {
		// Programs that open their terminal by name (/dev/pts/N) need to own it.
		if err := syscall.Fchown(peer, int(owner.UID), int(owner.GID)); err != nil {
			syscall.Close(fd)
			syscall.Close(peer)
			return nil, nil, fmt.Errorf("hand over terminal: %w", err)
		}
	}
	master = &Terminal{File: os.NewFile(uintptr(fd), "terminal"), fd: fd}
	return master, os.NewFile(uintptr(peer), "terminal"), master.Resize(rows, cols)
}

// openPeer opens the slave side of a master: with TIOCGPTPEER, or by its path in a kernel without that call (gVisor).
func openPeer(master int) (int, error) {
	const flags = syscall.O_RDWR | syscall.O_NOCTTY | syscall.O_CLOEXEC
	peer, _, errno := syscall.Syscall(syscall.SYS_IOCTL, uintptr(master), ioctlGetPeer, flags)
	if errno == 0 {
		return int(peer), nil
	}
	if errno != syscall.ENOTTY {
		return -1, errno
	}
	var number uint32
	if err := sys.Ioctl(master, syscall.TIOCGPTN, unsafe.Pointer(&number)); err != nil {
		return -1, err
	}
	return syscall.Open(fmt.Sprintf("/dev/pts/%d", number), flags, 0)
}

func (t *Terminal) Resize(rows, cols int) error {
	size := winsize{rows: uint16(rows), cols: uint16(cols)}
	if err := t.ioctl(syscall.TIOCSWINSZ, unsafe.Pointer(&size)); err != nil {
		return fmt.Errorf("resize terminal: %w", err)
	}
	return nil
}

// ForegroundGroup is the process group that receives the terminal's signals; 0 when there is none. Some kernels do
// not report it (gVisor).
func (t *Terminal) ForegroundGroup() (group int, isKnown bool) {
	var found int32
	err := t.ioctl(syscall.TIOCGPGRP, unsafe.Pointer(&found))
	return int(found), err != syscall.ENOTTY
}

// ReadsLines tells whether the terminal is in line mode (ICANON). A line editor switches it off while it reads.
func (t *Terminal) ReadsLines() bool {
	var modes syscall.Termios
	if err := t.ioctl(syscall.TCGETS, unsafe.Pointer(&modes)); err != nil {
		return true
	}
	return modes.Lflag&syscall.ICANON != 0
}

// CheckSize rejects sizes out of range. 0 means the default.
func CheckSize(rows, cols int) error {
	if rows < 0 || rows > 1000 || cols < 0 || cols > 1000 {
		return wire.Invalid("rows and cols must be 1 to 1000")
	}
	return nil
}
