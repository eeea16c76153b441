package main

import (
	"fmt"
	"os"
	"sync"
	"syscall"
	"unsafe"
)

const ioctlGetPeer = 0x5441 // TIOCGPTPEER: opens the slave without a path, so /dev/pts need not be there

type winsize struct{ rows, cols, x, y uint16 }

// A terminal is the master side of a pseudo terminal. It does not block: file
// waits through the runtime, fd is for direct reads and ioctls.
type terminal struct {
	file *os.File

	mu sync.RWMutex
	fd int // -1 once closed: the number may belong to another file by then
}

// close lets go of the terminal; later calls fail with EBADF.
func (t *terminal) close() {
	t.mu.Lock()
	t.fd = -1
	t.mu.Unlock()
	t.file.Close() // waits for reads, which take the lock
}

// read reads what is there now; EAGAIN means nothing.
func (t *terminal) read(p []byte) (int, error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for {
		n, err := syscall.Read(t.fd, p)
		if err != syscall.EINTR {
			return n, err
		}
	}
}

func (t *terminal) ioctl(request uintptr, arg unsafe.Pointer) error {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return ioctl(t.fd, request, arg)
}

// openPty makes a pseudo terminal and opens its slave side, which belongs to owner.
func openPty(rows, cols int, owner *account) (master *terminal, slave *os.File, err error) {
	fd, err := syscall.Open("/dev/ptmx", syscall.O_RDWR|syscall.O_NOCTTY|syscall.O_CLOEXEC|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("open /dev/ptmx: %w", err)
	}
	unlocked := int32(0)
	if err := ioctl(fd, syscall.TIOCSPTLCK, unsafe.Pointer(&unlocked)); err != nil {
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
	master = &terminal{file: os.NewFile(uintptr(fd), "terminal"), fd: fd}
	return master, os.NewFile(uintptr(peer), "terminal"), master.resize(rows, cols)
}

// openPeer opens the slave side of a master: by the kernel's own call or, in a kernel that has none (gVisor), by its name.
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
	if err := ioctl(master, syscall.TIOCGPTN, unsafe.Pointer(&number)); err != nil {
		return -1, err
	}
	return syscall.Open(fmt.Sprintf("/dev/pts/%d", number), flags, 0)
}

func (t *terminal) resize(rows, cols int) error {
	size := winsize{rows: uint16(rows), cols: uint16(cols)}
	if err := t.ioctl(syscall.TIOCSWINSZ, unsafe.Pointer(&size)); err != nil {
		return fmt.Errorf("resize terminal: %w", err)
	}
	return nil
}

// foregroundGroup is the process group that the terminal's keys act on; 0 when there is none. Some kernels do not tell (gVisor).
func (t *terminal) foregroundGroup() (group int, isTold bool) {
	var found int32
	err := t.ioctl(syscall.TIOCGPGRP, unsafe.Pointer(&found))
	return int(found), err != syscall.ENOTTY
}

// readsLines tells whether the terminal collects lines itself. A line editor switches that off while it reads.
func (t *terminal) readsLines() bool {
	var modes syscall.Termios
	if err := t.ioctl(syscall.TCGETS, unsafe.Pointer(&modes)); err != nil {
		return true
	}
	return modes.Lflag&syscall.ICANON != 0
}

func ioctl(fd int, request uintptr, arg unsafe.Pointer) error {
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, uintptr(fd), request, uintptr(arg)); errno != 0 {
		return errno
	}
	return nil
}

// memfd makes an unnamed file in memory.
func memfd(name string) (*os.File, error) {
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

// ownedBy lets the one user read and write a file in memory; nil is whoever the runner is.
//
// SECURITY: nobody else finds it, where the kernel shows descriptors to their owner alone. gVisor shows them to everybody.
func ownedBy(file *os.File, who *account) error {
	if who != nil {
		if err := file.Chown(int(who.UID), int(who.GID)); err != nil {
			return fmt.Errorf("hand over memory file: %w", err)
		}
	}
	if err := file.Chmod(0o600); err != nil {
		return fmt.Errorf("close memory file to others: %w", err)
	}
	return nil
}

func orDefault(value, otherwise int) int {
	if value == 0 {
		return otherwise
	}
	return value
}
