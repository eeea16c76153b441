package mux

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"sandglass/runner/internal/sys"
)

const (
	virtioPrefix = "virtio:"
	fdPrefix     = "fd:"
	ioctlFlush   = 0x540b // TCFLSH
)

// OpenStdio returns stdin and stdout as a device.
func OpenStdio() (*Device, error) {
	d := &Device{}
	for fd, file := range map[int]**os.File{0: &d.In, 1: &d.Out} {
		if err := makeRaw(fd); err != nil {
			return nil, err
		}
		// A write that waits through the Go runtime can be interrupted by a deadline.
		if err := syscall.SetNonblock(fd, true); err != nil {
			return nil, fmt.Errorf("unblock descriptor %d: %w", fd, err)
		}
		*file = os.NewFile(uintptr(fd), "carrier")
	}
	return d, nil
}

// OpenDevice opens a device whose other side may disconnect and connect again.
func OpenDevice(name string) (*Device, error) {
	file, err := openFile(name)
	if err != nil {
		return nil, fmt.Errorf("open carrier: %w", err)
	}
	if err := file.SetDeadline(time.Time{}); err != nil {
		file.Close()
		return nil, fmt.Errorf("cannot poll carrier %s: %w", name, err)
	}
	if err := makeRaw(int(sys.RawFD(file))); err != nil {
		file.Close()
		return nil, err
	}
	return &Device{In: file, Out: file, Reconnects: true, CanReopen: !strings.HasPrefix(name, fdPrefix)}, nil
}

// openFile opens a device by its path, by the name of a virtio port (virtio:NAME), or as an open nonblocking
// descriptor (fd:NUMBER).
func openFile(name string) (*os.File, error) {
	path := name
	if number := strings.TrimPrefix(name, fdPrefix); number != name {
		fd, err := strconv.Atoi(number)
		return os.NewFile(uintptr(fd), "carrier"), err
	}
	if port := strings.TrimPrefix(name, virtioPrefix); port != name {
		found, err := findVirtioPort(port)
		if err != nil {
			return nil, err
		}
		path = found
	}
	return os.OpenFile(path, os.O_RDWR|syscall.O_NOCTTY|syscall.O_NONBLOCK, 0)
}

// findVirtioPort returns the path of a virtio port. The numbers in the path depend on the devices of the machine.
func findVirtioPort(name string) (string, error) {
	files, err := filepath.Glob("/sys/class/virtio-ports/*/name")
	if err != nil {
		return "", err
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err == nil && strings.TrimSpace(string(content)) == name {
			return filepath.Join("/dev", filepath.Base(filepath.Dir(file))), nil
		}
	}
	return "", fmt.Errorf("no virtio port is named %q", name)
}

// makeRaw makes a terminal pass every byte unchanged and without echo. It does nothing to other files.
func makeRaw(fd int) error {
	var modes syscall.Termios
	if err := sys.Ioctl(fd, syscall.TCGETS, unsafe.Pointer(&modes)); err != nil {
		return nil // not a terminal
	}
	modes.Iflag, modes.Oflag, modes.Lflag = 0, 0, 0
	modes.Cflag = modes.Cflag&^(syscall.CSIZE|syscall.PARENB) | syscall.CS8 | syscall.CREAD | syscall.CLOCAL
	modes.Cc[syscall.VMIN], modes.Cc[syscall.VTIME] = 1, 0
	if err := sys.Ioctl(fd, syscall.TCSETS, unsafe.Pointer(&modes)); err != nil {
		return fmt.Errorf("make terminal raw: %w", err)
	}
	// Drop what has arrived: the terminal may echo it, and the echo would be between the frames.
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, uintptr(fd), ioctlFlush, syscall.TCIOFLUSH); errno != 0 {
		return fmt.Errorf("flush terminal: %w", errno)
	}
	return nil
}
