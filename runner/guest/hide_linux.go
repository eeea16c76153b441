package guest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// hide covers what a program could learn of the machine or change in its kernel.
func hide(s *settings) error {
	masked, held := s.Masked, s.ReadOnly
	more, err := unnamed(rootDir+"/proc", append(append([]string{}, masked...), held...))
	if err != nil {
		return err
	}
	for _, path := range append(masked, more.masked...) {
		if err := mask(filepath.Join(rootDir, path)); err != nil {
			return fmt.Errorf("mask %s: %w", path, err)
		}
	}
	for _, path := range append(held, more.held...) {
		if err := hold(filepath.Join(rootDir, path)); err != nil {
			return fmt.Errorf("hold %s: %w", path, err)
		}
	}
	return nil
}

type hidden struct{ masked, held []string }

// unnamed finds what the lists do not name: kernels differ in what they have. It looks at what is in /proc beside processes.
//
// SECURITY: root of a session is the kernel's own root here, for whom modes are no hindrance. A file that is root's alone, or that anybody
// may write to, is masked; nothing in a folder can be written to.
func unnamed(proc string, named []string) (*hidden, error) {
	known := map[string]bool{}
	for _, path := range named {
		known[path] = true
	}
	entries, err := os.ReadDir(proc)
	if err != nil {
		return nil, fmt.Errorf("look for what is to be hidden: %w", err)
	}
	found := &hidden{}
	for _, entry := range entries {
		path := "/proc/" + entry.Name()
		if _, err := strconv.Atoi(entry.Name()); err == nil || known[path] {
			continue
		}
		info, err := entry.Info()
		if err != nil {
			return nil, fmt.Errorf("look for what is to be hidden: %w", err)
		}
		switch mode := info.Mode(); {
		case mode.IsDir():
			found.held = append(found.held, path)
		case mode.IsRegular() && (mode&0o222 != 0 || mode&0o004 == 0):
			found.masked = append(found.masked, path)
		}
	}
	return found, nil
}

// mask shows nothing in place of a file or folder, where there is one.
func mask(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.IsDir() {
		return syscall.Mount("tmpfs", path, "tmpfs", quietNoexec|syscall.MS_RDONLY, "size=0")
	}
	return syscall.Mount(rootDir+"/dev/null", path, "", syscall.MS_BIND, "")
}

// hold makes a folder read-only, where there is one.
func hold(path string) error {
	if _, err := os.Lstat(path); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err := syscall.Mount(path, path, "", syscall.MS_BIND|syscall.MS_REC, ""); err != nil {
		return err
	}
	return remountReadonly(path, quietNoexec)
}
