package oci

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"sandglass/runner/internal/launch/mount"
	"sandglass/runner/internal/launch/pidfd"
	"sandglass/runner/internal/launch/socket"
)

// A socketFolder is a folder of the host in which a runner that cannot inherit sockets makes its own.
//
// SECURITY: only the sandbox's root may use the folder, and no program of the user runs as root before the runner listens. Once it listens,
// the sockets are moved out of the sandbox's reach and the folder is removed. Nothing can be made in a removed folder, so the sandbox can
// neither put a link there for the daemon to follow nor fill the host's disk.
type socketFolder struct {
	Path       string `json:"path"`
	Name       string `json:"name"`        // of the socket
	EgressName string `json:"egress_name"` // of the socket for egress
	Target     string `json:"target"`      // where the sandbox sees the folder
	Owner      int    `json:"owner"`       // id of the sandbox's root on the host
}

// How long the runner may take to listen after the runtime has returned.
const listenDeadline = 20 * time.Second

// make makes an empty folder.
func (f *socketFolder) make() error {
	if f == nil {
		return nil
	}
	if err := os.RemoveAll(f.Path); err != nil {
		return fmt.Errorf("remove the old socket folder: %w", err)
	}
	return mount.EnsureDir(f.Path, f.Owner, f.Owner, 0o700)
}

// mount mounts the folder in the sandbox.
func (f *socketFolder) mount(rootfs string) error {
	if f == nil {
		return nil
	}
	target, err := mount.OpenPoint(rootfs, f.Target)
	if err != nil {
		return err
	}
	defer target.Close()
	return mount.Bind(f.Path, target, mount.Nosuid|mount.Nodev|mount.Noexec, false)
}

// take waits until the runner listens and moves its sockets to where the daemon and the egress process connect. egress is nil for a machine
// without it.
func (f *socketFolder) take(path string, egress *socket.Owned, pid int) error {
	if f == nil {
		return nil
	}
	if egress != nil {
		if err := f.move(f.EgressName, egress.Path, pid); err != nil {
			return err
		}
		if err := egress.Give(); err != nil {
			return err
		}
	}
	if err := f.move(f.Name, path, pid); err != nil {
		return err
	}
	if err := os.RemoveAll(f.Path); err != nil {
		return fmt.Errorf("remove the socket folder: %w", err)
	}
	return nil
}

// move moves a socket once the runner listens on it.
func (f *socketFolder) move(name, to string, pid int) error {
	made := filepath.Join(f.Path, name)
	for deadline := time.Now().Add(listenDeadline); !answers(made); time.Sleep(time.Millisecond) {
		if !pidfd.IsAlive(pid) {
			return fmt.Errorf("the sandbox ended at once")
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("the runner made no socket")
		}
	}
	if err := os.Rename(made, to); err != nil {
		return fmt.Errorf("take the runner's socket: %w", err)
	}
	return nil
}

// answers tells whether a server accepts connections. A socket that is bound and does not listen yet refuses them.
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
