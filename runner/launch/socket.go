package launch

import (
	"fmt"
	"os"
	"syscall"
)

// listen makes a socket that listens at path.
func listen(path string) (*os.File, error) {
	socket, err := newSocket()
	if err != nil {
		return nil, err
	}
	if err := listenAt(socket, path); err != nil {
		socket.Close()
		return nil, err
	}
	return socket, nil
}

// newSocket makes a socket that has no name yet.
func newSocket() (*os.File, error) {
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("make socket: %w", err)
	}
	return os.NewFile(uintptr(fd), "socket"), nil
}

// listenAt lets a socket listen. Its folder is the daemon's alone; the mode is a second lock on the same door.
func listenAt(socket *os.File, path string) error {
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("remove old socket: %w", err)
	}
	fd := int(socket.Fd())
	mask := syscall.Umask(0o177)
	err := syscall.Bind(fd, &syscall.SockaddrUnix{Name: path})
	syscall.Umask(mask)
	if err == nil {
		err = syscall.Listen(fd, 512)
	}
	if err != nil {
		return fmt.Errorf("listen on %s: %w", path, err)
	}
	return nil
}
