package mount

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"unsafe"
)

// OPath is O_PATH: a descriptor that names a file without opening it.
const OPath = 0x200000

// How the kernel resolves a path (RESOLVE_* of openat2).
const (
	NoMagicLinks = 0x2
	NoSymlinks   = 0x4
	Beneath      = 0x8
	InRoot       = 0x10
)

// A Handle is an open file or folder. It names the same file whatever happens to its path.
type Handle struct {
	Name string // for error messages
	FD   int
}

func (h Handle) Close() { syscall.Close(h.FD) }

// Path is a path that resolves to the file itself, in this thread only.
func (h Handle) Path() string { return FDPath(h.FD) }

// FDPath is a path that resolves to an open file, in this thread only.
func FDPath(fd int) string { return fmt.Sprintf("/proc/thread-self/fd/%d", fd) }

// Open opens a path of the host. The last component must not be a symbolic link.
func Open(path string) (Handle, error) {
	fd, err := syscall.Open(path, syscall.O_NOFOLLOW|syscall.O_CLOEXEC|OPath, 0)
	if err != nil {
		return Handle{}, fmt.Errorf("open %s: %w", path, err)
	}
	return Handle{path, fd}, nil
}

// OpenPoint opens a mount point in a root filesystem.
//
// SECURITY: the filesystem may hold links that an earlier run of the sandbox made. A link in any component is refused, because it would
// redirect the mount.
func OpenPoint(rootfs, target string) (Handle, error) {
	root, err := Open(rootfs)
	if err != nil || filepath.Clean(target) == "/" {
		return root, err
	}
	defer root.Close()
	fd, errno := OpenAt(root.FD, strings.TrimPrefix(filepath.Clean(target), "/"), OPath, NoMagicLinks|NoSymlinks|Beneath)
	if errno != 0 {
		return Handle{}, fmt.Errorf("mount point %s: %w", target, errno)
	}
	return Handle{target, fd}, nil
}

// OpenFolder opens a folder of the host by a path in which no component is a link.
func OpenFolder(path string) (Handle, error) {
	fd, errno := OpenAt(atCwd, path, syscall.O_DIRECTORY|OPath, NoMagicLinks|NoSymlinks)
	if errno != 0 {
		return Handle{}, errno
	}
	return Handle{path, fd}, nil
}

// OpenBelow opens a folder below another one. A link in any component is refused.
func OpenBelow(base Handle, name string) (Handle, error) {
	fd, errno := OpenAt(base.FD, name, syscall.O_DIRECTORY|OPath, NoMagicLinks|NoSymlinks|Beneath)
	if errno != 0 {
		return Handle{}, errno
	}
	return Handle{name, fd}, nil
}

// OpenAt opens a path relative to a folder (openat2). resolve restricts how the kernel follows links.
func OpenAt(folder int, path string, flags, resolve uint64) (int, syscall.Errno) {
	p, err := syscall.BytePtrFromString(path)
	if err != nil {
		return -1, syscall.EINVAL
	}
	how := struct{ flags, mode, resolve uint64 }{syscall.O_CLOEXEC | flags, 0, resolve}
	fd, _, errno := syscall.Syscall6(sysOpenat2, uintptr(folder), uintptr(unsafe.Pointer(p)), uintptr(unsafe.Pointer(&how)), unsafe.Sizeof(how), 0, 0)
	return int(fd), errno
}

// EnsureDir makes one folder with this owner and mode. A folder that exists keeps its owner and mode.
func EnsureDir(path string, uid, gid int, mode os.FileMode) error {
	if err := os.Mkdir(path, mode); err != nil {
		if os.IsExist(err) {
			return nil
		}
		return fmt.Errorf("make folder: %w", err)
	}
	if err := os.Chown(path, uid, gid); err != nil {
		return fmt.Errorf("set owner: %w", err)
	}
	if err := os.Chmod(path, mode); err != nil {
		return fmt.Errorf("set mode: %w", err)
	}
	return nil
}
