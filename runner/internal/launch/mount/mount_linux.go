// Package mount makes mounts from detached copies of mounts (open_tree, mount_setattr, move_mount) and resolves paths without following
// links that a sandbox made.
package mount

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"unsafe"
)

// System calls and constants that the standard library has no name for. The numbers are the same on x64 and arm64.
const (
	sysOpenTree     = 428
	sysMoveMount    = 429
	sysOpenat2      = 437
	sysMountSetattr = 442

	atEmptyPath       = 0x1000
	atRecursive       = 0x8000
	openTreeClone     = 1
	moveFromEmptyPath = 4
	moveToEmptyPath   = 0x40
	attrIdmap         = 0x100000
)

// Attributes of a mount.
const (
	Readonly = 0x1
	Nosuid   = 0x2
	Nodev    = 0x4
	Noexec   = 0x8
)

type attributes struct {
	set, clear, propagation, usernsFd uint64
}

var (
	emptyPath = [1]byte{0}
	atCwd     = -100
)

// EnterPrivate moves this thread into a mount namespace of its own. Mounts made here do not propagate to the host. Unmounts on the host
// propagate here, so that a waiting launcher does not keep a device of the host busy.
func EnterPrivate() error {
	if err := syscall.Unshare(syscall.CLONE_NEWNS); err != nil {
		return fmt.Errorf("unshare the mount namespace: %w", err)
	}
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_SLAVE, ""); err != nil {
		return fmt.Errorf("stop mount propagation: %w", err)
	}
	return nil
}

// Cover mounts an empty filesystem over each path, in this mount namespace only.
func Cover(paths []string) error {
	for _, path := range paths {
		if err := syscall.Mount("tmpfs", path, "tmpfs", syscall.MS_NOSUID|syscall.MS_NODEV|syscall.MS_NOEXEC, "size=4k,mode=755"); err != nil {
			return fmt.Errorf("cover %s: %w", path, err)
		}
	}
	return nil
}

// SetReadonly makes mounts read-only or writable, in this mount namespace only.
func SetReadonly(paths []string, readonly bool) error {
	attr := attributes{clear: Readonly}
	if readonly {
		attr = attributes{set: Readonly}
	}
	for _, path := range paths {
		p, err := syscall.BytePtrFromString(path)
		if err != nil {
			return fmt.Errorf("set read-only attribute of %s: %w", path, err)
		}
		_, _, errno := syscall.Syscall6(sysMountSetattr, uintptr(atCwd), uintptr(unsafe.Pointer(p)), 0,
			uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr), 0)
		if errno != 0 {
			return fmt.Errorf("set read-only attribute of %s: %w", path, errno)
		}
	}
	return nil
}

// A Tree is a detached copy of a mount, or of a mount and those below it.
type Tree struct{ fd int }

func (t Tree) Close() { syscall.Close(t.fd) }

// At returns the root of the tree as a handle, which shares the tree's descriptor.
func (t Tree) At(name string) Handle { return Handle{name, t.fd} }

// Clone copies the mount at path, with those below it when recursive.
func Clone(path string, recursive bool) (Tree, error) {
	p, err := syscall.BytePtrFromString(path)
	if err != nil {
		return Tree{}, fmt.Errorf("clone mount %s: %w", path, err)
	}
	flags := openTreeClone | syscall.O_CLOEXEC
	if recursive {
		flags |= atRecursive
	}
	return clone(atCwd, p, flags, path)
}

// CloneAt copies the mount at an open folder, without those below it.
func CloneAt(h Handle) (Tree, error) {
	return clone(h.FD, &emptyPath[0], openTreeClone|syscall.O_CLOEXEC|atEmptyPath, h.Name)
}

func clone(dir int, path *byte, flags int, name string) (Tree, error) {
	fd, _, errno := syscall.Syscall(sysOpenTree, uintptr(dir), uintptr(unsafe.Pointer(path)), uintptr(flags))
	if errno != 0 {
		return Tree{}, fmt.Errorf("clone mount %s: %w", name, errno)
	}
	return Tree{int(fd)}, nil
}

// SetAttr adds attributes to every mount in the tree. idmap is the descriptor of a user namespace whose id map shifts owners, or -1.
func (t Tree) SetAttr(set uint64, idmap int) error {
	attr := attributes{set: set}
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

// Attach mounts the tree on a file or folder.
func (t Tree) Attach(at Handle) error {
	_, _, errno := syscall.Syscall6(sysMoveMount, uintptr(t.fd), uintptr(unsafe.Pointer(&emptyPath)), uintptr(at.FD),
		uintptr(unsafe.Pointer(&emptyPath)), moveFromEmptyPath|moveToEmptyPath, 0)
	if errno != 0 {
		return fmt.Errorf("mount on %s: %w", at.Name, errno)
	}
	return nil
}

// AttachIn mounts the tree on a path of another mount namespace. The calling thread stays in that namespace, so it must be locked to its
// goroutine and end with it.
func (t Tree) AttachIn(namespace *os.File, path string) error {
	// The kernel moves no thread that shares its root and working directory with another.
	if err := syscall.Unshare(syscall.CLONE_FS); err != nil {
		return fmt.Errorf("unshare the root: %w", err)
	}
	if _, _, errno := syscall.Syscall(sysSetns, namespace.Fd(), syscall.CLONE_NEWNS, 0); errno != 0 {
		return fmt.Errorf("enter the mount namespace: %w", errno)
	}
	target, err := Open(path)
	if err != nil {
		return err
	}
	defer target.Close()
	return t.Attach(target)
}

// Bind mounts source on target with attributes added.
func Bind(source string, target Handle, set uint64, recursive bool) error {
	t, err := Clone(source, recursive)
	if err != nil {
		return err
	}
	defer t.Close()
	if err := t.SetAttr(set, -1); err != nil {
		return fmt.Errorf("restrict mount of %s: %w", source, err)
	}
	return t.Attach(target)
}

// SECURITY: an overlay must not follow redirects. With them, a sandbox that renames a folder could move the mount points of its next
// start. Some kernels follow redirects by default.
const followNothing = "redirect_dir=nofollow"

// Overlay mounts an overlay on target.
//
// SECURITY: the options must name layers by descriptor. The sandbox can read them, and must not learn paths of the host.
func Overlay(target Handle, options string) error {
	err := syscall.Mount("overlay", target.Path(), "overlay", syscall.MS_NOSUID|syscall.MS_NODEV|syscall.MS_NOATIME, options+","+followNothing)
	if err != nil {
		return fmt.Errorf("mount overlay on %s: %w", target.Name, err)
	}
	return nil
}

// Below lists the mount points inside a folder that are folders, relative to it, parents before children.
func Below(folder string) ([]string, error) {
	data, err := os.ReadFile("/proc/thread-self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("list mounts: %w", err)
	}
	var below []string
	for _, line := range strings.Split(string(data), "\n") {
		fields := strings.Fields(line)
		if len(fields) < 5 || !strings.HasPrefix(fields[4], folder+"/") {
			continue
		}
		path := octal.Replace(fields[4][len(folder):])
		if info, err := os.Stat(filepath.Join(folder, path)); err == nil && info.IsDir() {
			below = append(below, path)
		}
	}
	return below, nil
}

// octal undoes the escapes of /proc/<pid>/mountinfo.
var octal = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
