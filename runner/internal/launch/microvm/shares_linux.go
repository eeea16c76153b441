package microvm

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"sandglass/runner/internal/launch/hostdir"
	"sandglass/runner/internal/launch/mount"
	"sandglass/runner/internal/launch/socket"
)

// shares are folders of the host that a machine sees: through virtiofsd, one process each, or through QEMU's own 9p server.
type shares struct {
	// Path is a folder that every user may enter. The folders are mounted below it, in the supervisor's mount namespace.
	Path string `json:"path"`
	// Argv is virtiofsd's, without source and socket; empty for 9p.
	Argv []string `json:"argv"`
	// RootID and UserID are the ids on the host of the machine's root and of the sandbox's user.
	RootID  int              `json:"root_id"`
	UserID  int              `json:"user_id"`
	Folders []hostdir.Folder `json:"folders"`
}

// start mounts the folders, starts one virtiofsd for each, and returns QEMU's connections to them. For 9p there are none: QEMU reads the
// folders in its jail.
//
// SECURITY: each virtiofsd is the root of a user namespace with two ids, which no other process of the host has, and the mount shows the
// folder's owner as one of them. A machine that takes over virtiofsd can reach the session's folders and nothing else.
func (s *shares) start(socketPath string, log *os.File) ([]*os.File, error) {
	if s == nil {
		return nil, nil
	}
	if err := mount.EnterPrivate(); err != nil {
		return nil, err
	}
	folders, err := hostdir.Open(s.Folders)
	if err != nil {
		return nil, err
	}
	if err := syscall.Mount("tmpfs", s.Path, "tmpfs", syscall.MS_NOSUID|syscall.MS_NODEV, "mode=755,size=64k"); err != nil {
		return nil, fmt.Errorf("mount shares: %w", err)
	}
	var connections []*os.File
	for i, f := range folders {
		source := filepath.Join(s.Path, strconv.Itoa(i))
		if err := os.Mkdir(source, 0o755); err != nil {
			return nil, fmt.Errorf("mount share %s: %w", f.Source, err)
		}
		target, err := mount.Open(source)
		if err != nil {
			return nil, err
		}
		err = f.Tree.Attach(target)
		target.Close()
		f.Tree.Close()
		if err != nil {
			return nil, err
		}
		if s.isNineP() {
			continue
		}
		connection, err := s.serve(source, socketPath, log)
		if err != nil {
			return nil, err
		}
		connections = append(connections, connection)
	}
	return connections, nil
}

func (s *shares) isNineP() bool { return s != nil && len(s.Argv) == 0 }

// serve starts virtiofsd and connects to it. The path of its socket is removed once the connection is made.
func (s *shares) serve(source, socketPath string, log *os.File) (*os.File, error) {
	listener, err := socket.Listen(socketPath)
	if err != nil {
		return nil, err
	}
	defer listener.Close()
	defer os.Remove(socketPath)
	argv := append(append([]string{}, s.Argv...), "-o", "source="+source, "--fd="+strconv.Itoa(firstDescriptor))
	ids := []syscall.SysProcIDMap{{ContainerID: 0, HostID: s.RootID, Size: 1}, {ContainerID: insideID, HostID: s.UserID, Size: 1}}
	process, err := os.StartProcess(argv[0], argv, &os.ProcAttr{
		Dir: "/", Env: []string{}, Files: []*os.File{nil, log, log, listener},
		Sys: &syscall.SysProcAttr{
			Setsid: true, Pdeathsig: syscall.SIGKILL, Cloneflags: syscall.CLONE_NEWUSER,
			UidMappings: ids, GidMappings: ids, GidMappingsEnableSetgroups: true, Credential: &syscall.Credential{Groups: []uint32{}},
		},
	})
	if err != nil {
		return nil, fmt.Errorf("start virtiofsd: %w", err)
	}
	// virtiofsd ends when QEMU closes its connection.
	go process.Wait()
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: socketPath, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("connect to virtiofsd: %w", err)
	}
	defer conn.Close()
	return conn.File()
}
