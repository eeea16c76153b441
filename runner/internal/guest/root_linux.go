package guest

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// buildRoot mounts a root filesystem at rootDir: an overlay of the image and our own layer, and the standard mounts of a session. A writable
// root has its upper layer on the session's disk, which must be mounted.
func buildRoot(f *bootOptions, s *settings, writable bool) error {
	lower := []string{baseDir, topDir}
	for i := f.layers - 1; i >= 0; i-- {
		lower = append(lower, filepath.Join(imageDir, strconv.Itoa(i)))
	}
	if f.layers == 0 {
		lower = append(lower, imageDir)
	}
	options, flags := "lowerdir="+strings.Join(lower, ":"), uintptr(syscall.MS_NODEV)
	if writable {
		options += ",upperdir=" + diskDir + "/upper,workdir=" + diskDir + "/work,redirect_dir=off"
	} else {
		flags |= syscall.MS_RDONLY
	}
	if err := (mount{"root", rootDir, "overlay", flags, options}).do(); err != nil {
		return err
	}
	steps := []step{
		{mount{"proc", "/proc", "proc", quietNoexec, ""}, false},
		{mount{"tmpfs", "/sys", "tmpfs", quietNoexec, "size=1m,mode=755"}, false},
		{mount{"tmpfs", "/dev", "tmpfs", syscall.MS_NOSUID | syscall.MS_STRICTATIME, "size=64k,mode=755"}, false},
		{mount{"tmpfs", "/tmp", "tmpfs", quietMount, fmt.Sprintf("size=%dm,mode=1777", f.tmpMb)}, false},
		{mount{"tmpfs", "/run", "tmpfs", quietMount, "size=16m,mode=755"}, false},
		{mount{runnerDir, "/.sandglass", "", syscall.MS_BIND, ""}, true},
	}
	for _, name := range f.packages {
		steps = append(steps, step{mount{filepath.Join(packagesDir, name), "/opt/sandglass/" + name, "", syscall.MS_BIND, ""}, true})
	}
	if !writable {
		// Their content comes with the session. In a writable root they are ordinary files.
		for _, name := range nameFiles {
			steps = append(steps, step{mount{filepath.Join(namesDir, name), "/etc/" + name, "", syscall.MS_BIND, ""}, true})
		}
	}
	for _, s := range steps {
		if err := s.do(); err != nil {
			return err
		}
	}
	if err := fillDev(s.Terminals, f.nested()); err != nil {
		return err
	}
	if err := fillSys(); err != nil {
		return err
	}
	return hide(s)
}

// rebuildRoot replaces the root that was built before the configuration came: with further mount points, and writable if the session asks
// for it.
func rebuildRoot(f *bootOptions, s *settings, cfg *config, points []string) error {
	if err := syscall.Unmount(rootDir, syscall.MNT_DETACH); err != nil {
		return fmt.Errorf("unmount root: %w", err)
	}
	for _, path := range points {
		if err := os.MkdirAll(filepath.Join(baseDir, path), 0o755); err != nil {
			return fmt.Errorf("make %s: %w", path, err)
		}
	}
	if err := writeNames(cfg.Names, filepath.Join(baseDir, "etc")); err != nil {
		return err
	}
	return buildRoot(f, s, !cfg.ReadonlyRoot)
}

// A step is a mount inside the new root. Its mount point is resolved inside that root.
type step struct {
	mount
	readonly bool
}

func (s step) do() error {
	target, err := inRoot(s.target)
	if err != nil {
		return err
	}
	defer target.Close()
	if err := syscall.Mount(s.source, fdPath(target), s.kind, s.flags, s.options); err != nil {
		return fmt.Errorf("mount %s: %w", s.target, err)
	}
	if !s.readonly {
		return nil
	}
	// The descriptor names the folder below the mount. The path, resolved again, names the mount.
	mounted, err := inRoot(s.target)
	if err != nil {
		return err
	}
	defer mounted.Close()
	return remountReadonly(fdPath(mounted), quietMount)
}

func remountReadonly(path string, flags uintptr) error {
	if err := syscall.Mount("", path, "", syscall.MS_REMOUNT|syscall.MS_BIND|syscall.MS_RDONLY|flags, ""); err != nil {
		return fmt.Errorf("make %s read-only: %w", path, err)
	}
	return nil
}

// enterRoot makes rootDir the root of this mount namespace. pivot_root does not work with an initramfs, so the new root is moved over the
// old one.
func enterRoot() error {
	if err := os.Chdir(rootDir); err != nil {
		return fmt.Errorf("enter root: %w", err)
	}
	if err := syscall.Mount(".", "/", "", syscall.MS_MOVE, ""); err != nil {
		return fmt.Errorf("move root: %w", err)
	}
	if err := syscall.Chroot("."); err != nil {
		return fmt.Errorf("change root: %w", err)
	}
	return os.Chdir("/")
}
