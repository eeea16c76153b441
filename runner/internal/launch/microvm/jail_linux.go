package microvm

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"sandglass/runner/internal/launch/mount"
)

// A jail is the root filesystem of QEMU: its program and libraries, read-only, and the files of its machine. The session's folder, the
// daemon's sockets and the files of other sessions are not in it.
type jail struct {
	Path string `json:"path"` // empty folder to mount it on, in the supervisor's mount namespace
	ID   int    `json:"id"`   // user and group of QEMU, which no other process has
	// Programs are folders of the host, such as /usr. A path that is a link becomes the same link.
	Programs []string `json:"programs"`
	Devices  []string `json:"devices"`
}

const (
	firstDescriptor = 3    // of QEMU's files, after the standard three
	insideID        = 1000 // of QEMU, in its user namespace
	sharesDir       = "/shares"
)

func (v *jail) build(files []file, s *shares) error {
	if err := mount.EnterPrivate(); err != nil {
		return err
	}
	if err := syscall.Mount("tmpfs", v.Path, "tmpfs", syscall.MS_NOSUID, "mode=755,size=1m"); err != nil {
		return fmt.Errorf("mount jail: %w", err)
	}
	for _, path := range v.Programs {
		if err := v.addProgram(path); err != nil {
			return err
		}
	}
	for _, path := range v.Devices {
		if err := v.addDevice(path); err != nil {
			return err
		}
	}
	// QEMU opens its read-only files as /dev/fd/N. Without a jail that is the descriptor itself.
	for i, f := range files {
		if f.Write {
			continue
		}
		if err := v.bind(f.Path, fmt.Sprintf("/dev/fd/%d", firstDescriptor+i), readOnlyData); err != nil {
			return err
		}
	}
	if s.isNineP() {
		if err := v.addShares(s); err != nil {
			return err
		}
	}
	if err := syscall.Mount("", v.Path, "", syscall.MS_REMOUNT|syscall.MS_RDONLY|syscall.MS_NOSUID, ""); err != nil {
		return fmt.Errorf("make jail read-only: %w", err)
	}
	return nil
}

const readOnlyData = syscall.MS_RDONLY | syscall.MS_NOSUID | syscall.MS_NODEV | syscall.MS_NOEXEC

// addShares binds the folders that QEMU itself serves. Each keeps the attributes of its mount.
func (v *jail) addShares(s *shares) error {
	target := filepath.Join(v.Path, sharesDir)
	if err := os.Mkdir(target, 0o755); err != nil {
		return fmt.Errorf("bind shares: %w", err)
	}
	if err := syscall.Mount(s.Path, target, "", syscall.MS_BIND|syscall.MS_REC, ""); err != nil {
		return fmt.Errorf("bind shares: %w", err)
	}
	return nil
}

func (v *jail) addProgram(path string) error {
	info, err := os.Lstat(path)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("add %s to the jail: %w", path, err)
	}
	if info.Mode()&os.ModeSymlink == 0 {
		return v.bind(path, path, syscall.MS_RDONLY|syscall.MS_NOSUID|syscall.MS_NODEV)
	}
	target, err := os.Readlink(path)
	if err == nil {
		err = os.Symlink(target, filepath.Join(v.Path, path))
	}
	if err != nil {
		return fmt.Errorf("add %s to the jail: %w", path, err)
	}
	return nil
}

// addDevice makes a device node that belongs to QEMU, so that QEMU needs no right to the host's. Where nodes cannot be made, it binds the
// host's.
func (v *jail) addDevice(path string) error {
	var info syscall.Stat_t
	if err := syscall.Stat(path, &info); err != nil {
		return fmt.Errorf("add %s to the jail: %w", path, err)
	}
	target := filepath.Join(v.Path, path)
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return fmt.Errorf("add %s to the jail: %w", path, err)
	}
	err := syscall.Mknod(target, syscall.S_IFCHR|0o600, int(info.Rdev))
	if err == nil {
		err = os.Chown(target, v.ID, v.ID)
	} else if err == syscall.EPERM {
		err = v.bind(path, path, syscall.MS_NOSUID|syscall.MS_NOEXEC)
	}
	if err != nil {
		return fmt.Errorf("add %s to the jail: %w", path, err)
	}
	return nil
}

// bind mounts a file or folder of the host in the jail.
func (v *jail) bind(source, target string, flags uintptr) error {
	target = filepath.Join(v.Path, target)
	info, err := os.Stat(source)
	if err != nil {
		return fmt.Errorf("add %s to the jail: %w", source, err)
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return fmt.Errorf("add %s to the jail: %w", source, err)
	}
	if info.IsDir() {
		err = os.Mkdir(target, 0o755)
	} else {
		err = os.WriteFile(target, nil, 0o644)
	}
	if err != nil {
		return fmt.Errorf("add %s to the jail: %w", source, err)
	}
	if err := syscall.Mount(source, target, "", syscall.MS_BIND, ""); err != nil {
		return fmt.Errorf("add %s to the jail: %w", source, err)
	}
	if err := syscall.Mount("", target, "", syscall.MS_REMOUNT|syscall.MS_BIND|flags, ""); err != nil {
		return fmt.Errorf("restrict the mount of %s: %w", source, err)
	}
	return nil
}
