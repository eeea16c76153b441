package launch

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"
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

// A socketFolder is a folder of the host in which a runner makes the socket that it was not given.
//
// SECURITY: the sandbox has it only until the runner listens, and is closed to all but its root, which nothing of the user's is before that. Then the socket is moved to where the
// sandbox does not reach, and the folder is removed: in a folder that is gone nothing can be made, so no link waits for the daemon there and
// no file fills the host's disk.
type socketFolder struct {
	Path   string `json:"path"`
	Name   string `json:"name"`   // of the socket
	Target string `json:"target"` // where the sandbox sees the folder
	Owner  int    `json:"owner"`  // the sandbox's root, outside
}

// How long a runner gets to listen, once the runtime has returned.
const listenDeadline = 20 * time.Second

// make makes the folder, empty.
func (f *socketFolder) make() error {
	if f == nil {
		return nil
	}
	if err := os.RemoveAll(f.Path); err != nil {
		return fmt.Errorf("remove an old folder for the socket: %w", err)
	}
	return ensureDir(f.Path, f.Owner, f.Owner, 0o700)
}

// show lets the sandbox have the folder.
func (f *socketFolder) show(rootfs string) error {
	if f == nil {
		return nil
	}
	target, err := mountPoint(rootfs, f.Target)
	if err != nil {
		return err
	}
	defer target.close()
	return bind(f.Path, target, attrNosuid|attrNodev|attrNoexec, false)
}

// take waits until the runner listens, and makes its socket the machine's.
func (f *socketFolder) take(socket string, pid int) error {
	if f == nil {
		return nil
	}
	made := filepath.Join(f.Path, f.Name)
	for deadline := time.Now().Add(listenDeadline); !answers(made); time.Sleep(time.Millisecond) {
		if !alive(pid) {
			return fmt.Errorf("the sandbox ended at once")
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("the runner made no socket")
		}
	}
	if err := os.Rename(made, socket); err != nil {
		return fmt.Errorf("take the runner's socket: %w", err)
	}
	if err := os.RemoveAll(f.Path); err != nil {
		return fmt.Errorf("remove the socket's folder: %w", err)
	}
	return nil
}

// answers: a socket that is bound and does not listen yet refuses.
func answers(path string) bool {
	if info, err := os.Lstat(path); err != nil || info.Mode().Type() != os.ModeSocket {
		return false
	}
	conn, err := net.DialTimeout("unix", path, listenDeadline)
	if err != nil {
		return false
	}
	conn.Close()
	return true
}
