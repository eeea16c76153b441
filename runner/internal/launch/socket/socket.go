// Package socket makes listening Unix sockets that a child process inherits as descriptors.
package socket

import (
	"fmt"
	"os"
	"syscall"
)

const backlog = 512

// Listen makes a socket that listens at path.
func Listen(path string) (*os.File, error) {
	socket, err := New()
	if err != nil {
		return nil, err
	}
	if err := ListenAt(socket, path); err != nil {
		socket.Close()
		return nil, err
	}
	return socket, nil
}

// An Owned is a socket that another user than the daemon's may connect to.
type Owned struct {
	Path  string `json:"path"`
	Owner int    `json:"owner"` // user id
}

// Listen makes a socket that listens at the path and belongs to its owner.
func (o *Owned) Listen() (*os.File, error) {
	socket, err := Listen(o.Path)
	if err != nil {
		return nil, err
	}
	if err := o.Give(); err != nil {
		socket.Close()
		return nil, err
	}
	return socket, nil
}

// ListenWith binds a socket to the path, listens, and gives the socket to its owner.
func (o *Owned) ListenWith(socket *os.File) error {
	if err := ListenAt(socket, o.Path); err != nil {
		return err
	}
	return o.Give()
}

// Give gives the socket at the path to its owner. A process without the right to do that can be the owner itself.
//
// SECURITY: nobody else may be able to replace the socket at the path.
func (o *Owned) Give() error {
	if o.Owner == os.Geteuid() {
		return nil
	}
	if err := os.Lchown(o.Path, o.Owner, -1); err != nil {
		return fmt.Errorf("give the socket to user %d: %w", o.Owner, err)
	}
	return nil
}

// New makes a socket that is not bound yet.
func New() (*os.File, error) {
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("make socket: %w", err)
	}
	return os.NewFile(uintptr(fd), "socket"), nil
}

// ListenAt binds the socket to path and listens. It replaces a socket that an earlier process left there.
//
// SECURITY: only the user that owns the socket may connect, which is the daemon's. The mode repeats what the mode of the folder already
// enforces.
func ListenAt(socket *os.File, path string) error {
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("remove old socket: %w", err)
	}
	fd := int(socket.Fd())
	mask := syscall.Umask(0o177)
	err := syscall.Bind(fd, &syscall.SockaddrUnix{Name: path})
	syscall.Umask(mask)
	if err == nil {
		err = syscall.Listen(fd, backlog)
	}
	if err != nil {
		return fmt.Errorf("listen on %s: %w", path, err)
	}
	return nil
}
