// Package sys has the Linux system calls that package syscall lacks: file calls relative to a directory, descriptors,
// process controls.
package sys

import (
	"strings"
	"syscall"
	"unsafe"
)

// File calls relative to a directory descriptor that package syscall lacks. None of them follows a symbolic link in
// the last component of a name.

const (
	atSymlinkNofollow = 0x100
	RemoveDir         = 0x200
	OpenPath          = 0x200000 // O_PATH

	ResolveNoXdev       = 0x01
	ResolveNoMagiclinks = 0x02
	ResolveNoSymlinks   = 0x04
	ResolveBeneath      = 0x08
	ResolveInRoot       = 0x10

	RenameNoreplace = 1

	pathBytes = 4096 + 256 // longest link target, with some reserve

	// openat2 fails with EAGAIN when a rename races with it.
	openRetries = 1000
)

type openHow struct{ flags, mode, resolve uint64 }

// hasOpenat2 tells whether the kernel has openat2. The call that asks cannot succeed.
var hasOpenat2 = func() bool {
	_, _, errno := syscall.RawSyscall6(sysOpenat2, ^uintptr(0), 0, 0, 0, 0, 0)
	return errno != syscall.ENOSYS
}()

// WithoutOpenat2 runs f as on a kernel without openat2. It is for tests and must not run concurrently.
func WithoutOpenat2(f func()) {
	had := hasOpenat2
	hasOpenat2 = false
	defer func() { hasOpenat2 = had }()
	f()
}

// Openat2 opens path below dir under the given RESOLVE flags. Where the kernel has no openat2 it walks the path itself.
func Openat2(dir int, path string, flags int, resolve uint64) (int, error) {
	if !hasOpenat2 {
		return walkTo(dir, path, flags, resolve)
	}
	name, err := syscall.BytePtrFromString(path)
	if err != nil {
		return -1, err
	}
	how := openHow{flags: uint64(flags | syscall.O_CLOEXEC), resolve: resolve}
	for tries := 0; ; tries++ {
		fd, _, errno := syscall.Syscall6(sysOpenat2, uintptr(dir), uintptr(unsafe.Pointer(name)),
			uintptr(unsafe.Pointer(&how)), unsafe.Sizeof(how), 0, 0)
		switch {
		case errno == 0:
			return int(fd), nil
		case (errno == syscall.EAGAIN || errno == syscall.EINTR) && tries < openRetries:
		default:
			return -1, errno
		}
	}
}

// OpenAt opens a name in dir without following a link and without blocking.
func OpenAt(dir int, name string, flags int, mode uint32) (int, error) {
	for {
		fd, err := syscall.Openat(dir, name, flags|syscall.O_CLOEXEC|syscall.O_NOFOLLOW|syscall.O_NOCTTY|syscall.O_NONBLOCK, mode)
		if err != syscall.EINTR {
			return fd, err
		}
	}
}

// OpenDirAt opens a directory below dir, on the same mount, for reading. It fails with ELOOP when any component is a
// symbolic link.
func OpenDirAt(dir int, name string) (int, error) {
	return Openat2(dir, name, syscall.O_RDONLY|syscall.O_DIRECTORY, ResolveBeneath|ResolveNoSymlinks|ResolveNoXdev)
}

// maxPiece is a path length that every kernel accepts in one call.
const maxPiece = 2048

// OpenBelow is OpenDirAt for a clean path of any length. It opens a long path in pieces.
func OpenBelow(dir int, name string) (int, error) {
	at := -1
	for {
		piece, rest := cutPath(name, maxPiece)
		from := dir
		if at >= 0 {
			from = at
		}
		next, err := OpenDirAt(from, piece)
		if at >= 0 {
			syscall.Close(at)
		}
		if err != nil || rest == "" {
			return next, err
		}
		at, name = next, rest
	}
}

// cutPath splits a path after at most max bytes, between two names. A single name may be longer.
func cutPath(path string, max int) (piece, rest string) {
	if len(path) <= max {
		return path, ""
	}
	cut := strings.LastIndexByte(path[:max], '/')
	if cut < 0 {
		cut = strings.IndexByte(path, '/')
	}
	if cut < 0 {
		return path, ""
	}
	return path[:cut], path[cut+1:]
}

func StatAt(dir int, name string) (*syscall.Stat_t, error) {
	p, err := syscall.BytePtrFromString(name)
	if err != nil {
		return nil, err
	}
	st := &syscall.Stat_t{}
	_, _, errno := syscall.Syscall6(sysFstatat, uintptr(dir), uintptr(unsafe.Pointer(p)),
		uintptr(unsafe.Pointer(st)), atSymlinkNofollow, 0, 0)
	if errno != 0 {
		return nil, errno
	}
	return st, nil
}

func ReadlinkAt(dir int, name string) (string, error) {
	p, err := syscall.BytePtrFromString(name)
	if err != nil {
		return "", err
	}
	buf := make([]byte, pathBytes)
	n, _, errno := syscall.Syscall6(syscall.SYS_READLINKAT, uintptr(dir), uintptr(unsafe.Pointer(p)),
		uintptr(unsafe.Pointer(&buf[0])), uintptr(len(buf)), 0, 0)
	if errno != 0 {
		return "", errno
	}
	return string(buf[:n]), nil
}

func UnlinkAt(dir int, name string, flags int) error {
	p, err := syscall.BytePtrFromString(name)
	if err != nil {
		return err
	}
	_, _, errno := syscall.Syscall(syscall.SYS_UNLINKAT, uintptr(dir), uintptr(unsafe.Pointer(p)), uintptr(flags))
	return Err(errno)
}

func SymlinkAt(target string, dir int, name string) error {
	t, err := syscall.BytePtrFromString(target)
	if err != nil {
		return err
	}
	p, err := syscall.BytePtrFromString(name)
	if err != nil {
		return err
	}
	_, _, errno := syscall.Syscall(syscall.SYS_SYMLINKAT, uintptr(unsafe.Pointer(t)), uintptr(dir), uintptr(unsafe.Pointer(p)))
	return Err(errno)
}

func LinkAt(fromDir int, from string, toDir int, to string) error {
	return twoNames(syscall.SYS_LINKAT, fromDir, from, toDir, to, 0)
}

func RenameAt(fromDir int, from string, toDir int, to string, flags uintptr) error {
	return twoNames(sysRenameat2, fromDir, from, toDir, to, flags)
}

func twoNames(call uintptr, fromDir int, from string, toDir int, to string, flags uintptr) error {
	f, err := syscall.BytePtrFromString(from)
	if err != nil {
		return err
	}
	t, err := syscall.BytePtrFromString(to)
	if err != nil {
		return err
	}
	_, _, errno := syscall.Syscall6(call, uintptr(fromDir), uintptr(unsafe.Pointer(f)),
		uintptr(toDir), uintptr(unsafe.Pointer(t)), flags, 0)
	return Err(errno)
}

// SetTimes sets access and modification time of an open file.
func SetTimes(fd int, seconds, nanoseconds int64) error {
	t := syscall.Timespec{Sec: seconds, Nsec: nanoseconds}
	times := [2]syscall.Timespec{t, t}
	_, _, errno := syscall.Syscall6(syscall.SYS_UTIMENSAT, uintptr(fd), 0, uintptr(unsafe.Pointer(&times)), 0, 0, 0)
	return Err(errno)
}

// Err is errno as an error; nil for 0.
func Err(errno syscall.Errno) error {
	if errno != 0 {
		return errno
	}
	return nil
}
