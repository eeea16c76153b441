package guest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// hide masks files of the kernel that reveal or change its state, and makes folders of the kernel read-only.
func hide(s *settings) error {
	masked, readOnly := s.Masked, s.ReadOnly
	more, err := unlisted(rootDir+"/proc", append(append([]string{}, masked...), readOnly...))
	if err != nil {
		return err
	}
	for _, path := range append(masked, more.masked...) {
		if err := mask(filepath.Join(rootDir, path)); err != nil {
			return fmt.Errorf("mask %s: %w", path, err)
		}
	}
	for _, path := range append(readOnly, more.readOnly...) {
		if err := makeReadOnly(filepath.Join(rootDir, path)); err != nil {
			return fmt.Errorf("make %s read-only: %w", path, err)
		}
	}
	return nil
}

type hidden struct{ masked, readOnly []string }

// unlisted finds files of /proc, other than processes, that the lists do not name: kernels differ in what they have.
//
// SECURITY: root of a session is root of this kernel, who passes every check of modes. A file that only root may read, or that anybody may
// write, is masked; a folder becomes read-only.
func unlisted(proc string, named []string) (*hidden, error) {
	known := map[string]bool{}
	for _, path := range named {
		known[path] = true
	}
	entries, err := os.ReadDir(proc)
	if err != nil {
		return nil, fmt.Errorf("list /proc: %w", err)
	}
	found := &hidden{}
	for _, entry := range entries {
		path := "/proc/" + entry.Name()
		if _, err := strconv.Atoi(entry.Name()); err == nil || known[path] {
			continue
		}
		info, err := entry.Info()
		if err != nil {
			return nil, fmt.Errorf("list /proc: %w", err)
		}
		switch mode := info.Mode(); {
		case mode.IsDir():
			found.readOnly = append(found.readOnly, path)
		case mode.IsRegular() && (mode&0o222 != 0 || mode&0o004 == 0):
			found.masked = append(found.masked, path)
		}
	}
	return found, nil
}

// mask covers a file or folder, if it exists, with an empty one.
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

// makeReadOnly makes a file or folder read-only, if it exists.
func makeReadOnly(path string) error {
	if _, err := os.Lstat(path); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err := syscall.Mount(path, path, "", syscall.MS_BIND|syscall.MS_REC, ""); err != nil {
		return err
	}
	return remountReadonly(path, quietNoexec)
}
