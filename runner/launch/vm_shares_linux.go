package launch

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// vmShares are folders of the host that a machine sees: through virtiofsd, one process each, or through QEMU's own 9p server.
type vmShares struct {
	// Path is a folder that everybody may enter. They are put together on it, in the keeper's own mount namespace.
	Path string `json:"path"`
	// Argv is virtiofsd's, without what it serves and where; empty for 9p.
	Argv []string `json:"argv"`
	// RootID and UserID are whom root and the sandbox's user of the machine are on the host.
	RootID  int      `json:"root_id"`
	UserID  int      `json:"user_id"`
	Folders []folder `json:"folders"`
}

// start gives the descriptor that QEMU speaks to each virtiofsd on. For 9p there are none: the jail shows QEMU the folders.
//
// SECURITY: each virtiofsd is the root of a user namespace that has two ids, both nobody's on the host, and the mount shows it the folder's owner as
// one of them. A machine that takes it over has what the session was given and nothing else.
func (s *vmShares) start(socket string, log *os.File) ([]*os.File, error) {
	if s == nil {
		return nil, nil
	}
	if err := enterPrivateMounts(); err != nil {
		return nil, err
	}
	held, err := holdFolders(s.Folders)
	if err != nil {
		return nil, err
	}
	if err := syscall.Mount("tmpfs", s.Path, "tmpfs", syscall.MS_NOSUID|syscall.MS_NODEV, "mode=755,size=64k"); err != nil {
		return nil, fmt.Errorf("mount shares: %w", err)
	}
	var given []*os.File
	for i, f := range held {
		source := filepath.Join(s.Path, strconv.Itoa(i))
		if err := os.Mkdir(source, 0o755); err != nil {
			return nil, fmt.Errorf("show %s: %w", f.Source, err)
		}
		target, err := openPath(source)
		if err != nil {
			return nil, err
		}
		err = f.tree.attach(target)
		target.close()
		f.tree.close()
		if err != nil {
			return nil, err
		}
		if s.isNineP() {
			continue
		}
		file, err := s.serve(source, socket, log)
		if err != nil {
			return nil, err
		}
		given = append(given, file)
	}
	return given, nil
}

func (s *vmShares) isNineP() bool { return s != nil && len(s.Argv) == 0 }

// serve starts virtiofsd and connects to it. Its socket has a name only as long as that takes.
func (s *vmShares) serve(source, socket string, log *os.File) (*os.File, error) {
	listener, err := listen(socket)
	if err != nil {
		return nil, err
	}
	defer listener.Close()
	defer os.Remove(socket)
	argv := append(append([]string{}, s.Argv...), "-o", "source="+source, "--fd="+strconv.Itoa(firstGiven))
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
	// It ends with QEMU, whose connection it waits on.
	go process.Wait()
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("connect to virtiofsd: %w", err)
	}
	defer conn.Close()
	return conn.File()
}
