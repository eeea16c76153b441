package guest

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// buildRoot puts a root filesystem together at rootDir: the image under our own layer, and everything that a session sees beside it. A
// writable one takes its changes to the session's disk, which is mounted then.
func buildRoot(f *facts, s *settings, writable bool) error {
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
	if !writable {
		// Their content comes with the session. In a writable root they are files as others.
		for _, name := range nameFiles {
			steps = append(steps, step{mount{filepath.Join(namesDir, name), "/etc/" + name, "", syscall.MS_BIND, ""}, true})
		}
	}
	for _, s := range steps {
		if err := s.do(); err != nil {
			return err
		}
	}
	if err := furnishDev(s.Terminals, f.nested()); err != nil {
		return err
	}
	if err := furnishSys(); err != nil {
		return err
	}
	return hide(s)
}

// rebuildRoot makes the root anew that was built before the session came, with places to mount on, and writable if the session says so.
func rebuildRoot(f *facts, s *settings, cfg *config, places []string) error {
	if err := syscall.Unmount(rootDir, syscall.MNT_DETACH); err != nil {
		return fmt.Errorf("unmount root: %w", err)
	}
	for _, path := range places {
		if err := os.MkdirAll(filepath.Join(baseDir, path), 0o755); err != nil {
			return fmt.Errorf("make %s: %w", path, err)
		}
	}
	if err := writeNames(cfg.Names, filepath.Join(baseDir, "etc")); err != nil {
		return err
	}
	return buildRoot(f, s, !cfg.ReadonlyRoot)
}

// A step is a mount inside the new root.
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
	// The descriptor names what is below the mount; the path, looked up again, the mount itself.
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

// becomeRoot makes rootDir the root of this mount namespace. A root that the kernel unpacked cannot be pivoted away from, only covered.
func becomeRoot() error {
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
