package launch

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// A vmJail is the root that QEMU is shut in: its program and libraries, read-only, and the files it was given. It has no network, sees no
// other process, and the session's folder, the daemon's sockets and other sessions' files are not there.
type vmJail struct {
	Path string `json:"path"` // an empty folder to mount it on, in a mount namespace of its own
	ID   int    `json:"id"`   // user and group that QEMU runs as, which nobody else has
	// Programs are folders of the host, such as /usr; a link stays a link.
	Programs []string `json:"programs"`
	Devices  []string `json:"devices"`
}

const (
	firstGiven = 3
	insideID   = 1000
	sharesDir  = "/shares"
)

func (v *vmJail) build(files []vmFile, shares *vmShares) error {
	if err := enterPrivateMounts(); err != nil {
		return err
	}
	if err := syscall.Mount("tmpfs", v.Path, "tmpfs", syscall.MS_NOSUID, "mode=755,size=1m"); err != nil {
		return fmt.Errorf("mount jail: %w", err)
	}
	for _, path := range v.Programs {
		if err := v.show(path); err != nil {
			return err
		}
	}
	for _, path := range v.Devices {
		if err := v.device(path); err != nil {
			return err
		}
	}
	// What QEMU opens by name it opens as /dev/fd/N, which is the descriptor itself where there is no jail.
	for i, f := range files {
		if f.Write {
			continue
		}
		if err := v.bind(f.Path, fmt.Sprintf("/dev/fd/%d", firstGiven+i), readOnlyData); err != nil {
			return err
		}
	}
	if shares.isNineP() {
		if err := v.showShares(shares); err != nil {
			return err
		}
	}
	if err := syscall.Mount("", v.Path, "", syscall.MS_REMOUNT|syscall.MS_RDONLY|syscall.MS_NOSUID, ""); err != nil {
		return fmt.Errorf("close jail: %w", err)
	}
	return nil
}

const readOnlyData = syscall.MS_RDONLY | syscall.MS_NOSUID | syscall.MS_NODEV | syscall.MS_NOEXEC

// showShares shows the folders that QEMU serves itself, each with the limits it was mounted with.
func (v *vmJail) showShares(shares *vmShares) error {
	target := filepath.Join(v.Path, sharesDir)
	if err := os.Mkdir(target, 0o755); err != nil {
		return fmt.Errorf("show shares: %w", err)
	}
	if err := syscall.Mount(shares.Path, target, "", syscall.MS_BIND|syscall.MS_REC, ""); err != nil {
		return fmt.Errorf("show shares: %w", err)
	}
	return nil
}

func (v *vmJail) show(path string) error {
	info, err := os.Lstat(path)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("show %s: %w", path, err)
	}
	if info.Mode()&os.ModeSymlink == 0 {
		return v.bind(path, path, syscall.MS_RDONLY|syscall.MS_NOSUID|syscall.MS_NODEV)
	}
	target, err := os.Readlink(path)
	if err == nil {
		err = os.Symlink(target, filepath.Join(v.Path, path))
	}
	if err != nil {
		return fmt.Errorf("show %s: %w", path, err)
	}
	return nil
}

// device shows a device of the host. Where that is possible it is one of QEMU's own, so that it needs no right to the host's.
func (v *vmJail) device(path string) error {
	var info syscall.Stat_t
	if err := syscall.Stat(path, &info); err != nil {
		return fmt.Errorf("show %s: %w", path, err)
	}
	target := filepath.Join(v.Path, path)
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return fmt.Errorf("show %s: %w", path, err)
	}
	err := syscall.Mknod(target, syscall.S_IFCHR|0o600, int(info.Rdev))
	if err == nil {
		err = os.Chown(target, v.ID, v.ID)
	} else if err == syscall.EPERM {
		err = v.bind(path, path, syscall.MS_NOSUID|syscall.MS_NOEXEC)
	}
	if err != nil {
		return fmt.Errorf("show %s: %w", path, err)
	}
	return nil
}

// bind shows a file or folder of the host in the jail.
func (v *vmJail) bind(source, target string, flags uintptr) error {
	target = filepath.Join(v.Path, target)
	info, err := os.Stat(source)
	if err != nil {
		return fmt.Errorf("show %s: %w", source, err)
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return fmt.Errorf("show %s: %w", source, err)
	}
	if info.IsDir() {
		err = os.Mkdir(target, 0o755)
	} else {
		err = os.WriteFile(target, nil, 0o644)
	}
	if err != nil {
		return fmt.Errorf("show %s: %w", source, err)
	}
	if err := syscall.Mount(source, target, "", syscall.MS_BIND, ""); err != nil {
		return fmt.Errorf("show %s: %w", source, err)
	}
	if err := syscall.Mount("", target, "", syscall.MS_REMOUNT|syscall.MS_BIND|flags, ""); err != nil {
		return fmt.Errorf("limit %s: %w", source, err)
	}
	return nil
}
