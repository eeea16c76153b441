package launch

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"unsafe"
)

// System calls and constants that the standard library has no name for; the numbers are the same on x64 and arm64.
const (
	sysPidfdSendSignal = 424
	sysOpenTree        = 428
	sysMoveMount       = 429
	sysPidfdOpen       = 434
	sysOpenat2         = 437
	sysMountSetattr    = 442

	atEmptyPath       = 0x1000
	atRecursive       = 0x8000
	openTreeClone     = 1
	moveFromEmptyPath = 4
	attrReadonly      = 0x1
	attrNosuid        = 0x2
	attrNodev         = 0x4
	attrNoexec        = 0x8
	attrIdmap         = 0x100000
)

type mountAttr struct {
	set, clear, propagation, usernsFd uint64
}

var (
	emptyPath = [1]byte{0}
	atCwd     = -100
)

// enterPrivateMounts moves this thread into a mount namespace of its own, from which nothing spreads to the host. What the
// host unmounts goes here too, so that a waiting launcher keeps no device of the host busy.
func enterPrivateMounts() error {
	if err := syscall.Unshare(syscall.CLONE_NEWNS); err != nil {
		return fmt.Errorf("unshare the mount namespace: %w", err)
	}
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_SLAVE, ""); err != nil {
		return fmt.Errorf("keep mounts from spreading: %w", err)
	}
	return nil
}

// hideMounts covers each path with an empty filesystem. Only this process and its children see it.
func hideMounts(paths []string) error {
	for _, path := range paths {
		if err := syscall.Mount("tmpfs", path, "tmpfs", syscall.MS_NOSUID|syscall.MS_NODEV|syscall.MS_NOEXEC, "size=4k,mode=755"); err != nil {
			return fmt.Errorf("hide %s: %w", path, err)
		}
	}
	return nil
}

// setReadonly makes mounts read-only, or writable again, for this process and its children.
func setReadonly(paths []string, readonly bool) error {
	attr := mountAttr{clear: attrReadonly}
	if readonly {
		attr = mountAttr{set: attrReadonly}
	}
	for _, path := range paths {
		p, err := syscall.BytePtrFromString(path)
		if err != nil {
			return fmt.Errorf("protect %s: %w", path, err)
		}
		_, _, errno := syscall.Syscall6(sysMountSetattr, uintptr(atCwd), uintptr(unsafe.Pointer(p)), 0,
			uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr), 0)
		if errno != 0 {
			return fmt.Errorf("protect %s: %w", path, errno)
		}
	}
	return nil
}

// A tree is a mount, or several, that is not attached anywhere yet.
type tree struct{ fd int }

func (t tree) close() { syscall.Close(t.fd) }

// cloneTree copies the mount at path, with those below it when recursive, without attaching the copy.
func cloneTree(path string, recursive bool) (tree, error) {
	p, err := syscall.BytePtrFromString(path)
	if err != nil {
		return tree{}, fmt.Errorf("clone mount %s: %w", path, err)
	}
	flags := openTreeClone | syscall.O_CLOEXEC
	if recursive {
		flags |= atRecursive
	}
	fd, _, errno := syscall.Syscall(sysOpenTree, uintptr(atCwd), uintptr(unsafe.Pointer(p)), uintptr(flags))
	if errno != 0 {
		return tree{}, fmt.Errorf("clone mount %s: %w", path, errno)
	}
	return tree{int(fd)}, nil
}

// setAttr adds attributes to every mount in the tree. idmap is a user namespace's descriptor, or -1.
func (t tree) setAttr(set uint64, idmap int) error {
	attr := mountAttr{set: set}
	if idmap >= 0 {
		attr.set |= attrIdmap
		attr.usernsFd = uint64(idmap)
	}
	_, _, errno := syscall.Syscall6(sysMountSetattr, uintptr(t.fd), uintptr(unsafe.Pointer(&emptyPath)), atEmptyPath|atRecursive,
		uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr), 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// attach puts the tree at a place.
func (t tree) attach(p place) error {
	_, _, errno := syscall.Syscall6(sysMoveMount, uintptr(t.fd), uintptr(unsafe.Pointer(&emptyPath)), uintptr(p.fd),
		uintptr(unsafe.Pointer(&emptyPath)), moveFromEmptyPath|0x40 /* MOVE_MOUNT_T_EMPTY_PATH */, 0)
	if errno != 0 {
		return fmt.Errorf("mount on %s: %w", p.name, errno)
	}
	return nil
}

// A place is a file or folder that is held, whatever becomes of its name.
type place struct {
	name string
	fd   int
}

func (p place) close()       { syscall.Close(p.fd) }
func (p place) path() string { return fdPath(p.fd) }

func fdPath(fd int) string { return fmt.Sprintf("/proc/thread-self/fd/%d", fd) }

const oPath = 0x200000

// openPath holds a path of the host. A symbolic link at its end is refused.
func openPath(path string) (place, error) {
	fd, err := syscall.Open(path, syscall.O_NOFOLLOW|syscall.O_CLOEXEC|oPath, 0)
	if err != nil {
		return place{}, fmt.Errorf("open %s: %w", path, err)
	}
	return place{path, fd}, nil
}

// mountPoint holds the place in a root filesystem where something is to be mounted.
//
// SECURITY: what is mounted there already may hold what an earlier run of the sandbox left. A link anywhere on the way is refused:
// it would lead the mount to where the sandbox wants it.
func mountPoint(rootfs, target string) (place, error) {
	root, err := openPath(rootfs)
	if err != nil || filepath.Clean(target) == "/" {
		return root, err
	}
	defer root.close()
	fd, errno := openFrom(root.fd, strings.TrimPrefix(filepath.Clean(target), "/"), oPath, noMagicLinks|noSymlinks|beneath)
	if errno != 0 {
		return place{}, fmt.Errorf("mount point %s: %w", target, errno)
	}
	return place{target, fd}, nil
}

// How the kernel is to follow a path.
const (
	noMagicLinks = 0x2
	noSymlinks   = 0x4
	beneath      = 0x8
	inRoot       = 0x10
)

// openFrom opens a path that begins at a folder, following it only as far as resolve lets it.
func openFrom(folder int, path string, flags, resolve uint64) (int, syscall.Errno) {
	p, err := syscall.BytePtrFromString(path)
	if err != nil {
		return -1, syscall.EINVAL
	}
	how := struct{ flags, mode, resolve uint64 }{syscall.O_CLOEXEC | flags, 0, resolve}
	fd, _, errno := syscall.Syscall6(sysOpenat2, uintptr(folder), uintptr(unsafe.Pointer(p)), uintptr(unsafe.Pointer(&how)), unsafe.Sizeof(how), 0, 0)
	return int(fd), errno
}

// bind shows source at target with attributes added.
func bind(source string, target place, set uint64, recursive bool) error {
	t, err := cloneTree(source, recursive)
	if err != nil {
		return err
	}
	defer t.close()
	if err := t.setAttr(set, -1); err != nil {
		return fmt.Errorf("restrict mount of %s: %w", source, err)
	}
	return t.attach(target)
}

// ensureDir makes one directory with exactly this owner and mode; one that is there keeps what its users made of it.
func ensureDir(path string, uid, gid int, mode os.FileMode) error {
	if err := os.Mkdir(path, mode); err != nil {
		if os.IsExist(err) {
			return nil
		}
		return fmt.Errorf("make directory: %w", err)
	}
	if err := os.Chown(path, uid, gid); err != nil {
		return fmt.Errorf("own directory: %w", err)
	}
	if err := os.Chmod(path, mode); err != nil {
		return fmt.Errorf("set mode: %w", err)
	}
	return nil
}
