package main

import (
	"strings"
	"syscall"
	"unsafe"
)

// File calls relative to a descriptor that package syscall lacks. None follows
// a symbolic link in the last component.

const (
	atSymlinkNofollow = 0x100
	atRemovedir       = 0x200
	openPath          = 0x200000 // O_PATH

	resolveNoXdev       = 0x01
	resolveNoMagiclinks = 0x02
	resolveNoSymlinks   = 0x04
	resolveBeneath      = 0x08
	resolveInRoot       = 0x10

	renameNoreplace = 1

	// A path that races with renames makes openat2 give up with EAGAIN.
	openRetries = 1000
)

type openHow struct{ flags, mode, resolve uint64 }

// hasOpenat2: some kernels do not have it. Asked once, in a way that cannot succeed.
var hasOpenat2 = func() bool {
	_, _, errno := syscall.RawSyscall6(sysOpenat2, ^uintptr(0), 0, 0, 0, 0, 0)
	return errno != syscall.ENOSYS
}()

func openat2(dir int, path string, flags int, resolve uint64) (int, error) {
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

func openAt(dir int, name string, flags int, mode uint32) (int, error) {
	for {
		fd, err := syscall.Openat(dir, name, flags|syscall.O_CLOEXEC|syscall.O_NOFOLLOW|syscall.O_NOCTTY|syscall.O_NONBLOCK, mode)
		if err != syscall.EINTR {
			return fd, err
		}
	}
}

// openDirAt opens a directory below dir for reading, on the same mount. A link on the way, the last name included, is ELOOP.
func openDirAt(dir int, name string) (int, error) {
	return openat2(dir, name, syscall.O_RDONLY|syscall.O_DIRECTORY, resolveBeneath|resolveNoSymlinks|resolveNoXdev)
}

// A path of at most this many bytes is within what every kernel takes at once.
const maxPiece = 2048

// openBelow is openDirAt for a clean name of any length, which is opened piece by piece.
func openBelow(dir int, name string) (int, error) {
	at := -1
	for {
		piece, rest := cutPath(name, maxPiece)
		from := dir
		if at >= 0 {
			from = at
		}
		next, err := openDirAt(from, piece)
		if at >= 0 {
			syscall.Close(at)
		}
		if err != nil || rest == "" {
			return next, err
		}
		at, name = next, rest
	}
}

// cutPath takes at most max bytes of whole names off a path; one name alone may be longer.
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

func statAt(dir int, name string) (*syscall.Stat_t, error) {
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

func readlinkAt(dir int, name string) (string, error) {
	p, err := syscall.BytePtrFromString(name)
	if err != nil {
		return "", err
	}
	buf := make([]byte, maxPathBytes+256)
	n, _, errno := syscall.Syscall6(syscall.SYS_READLINKAT, uintptr(dir), uintptr(unsafe.Pointer(p)),
		uintptr(unsafe.Pointer(&buf[0])), uintptr(len(buf)), 0, 0)
	if errno != 0 {
		return "", errno
	}
	return string(buf[:n]), nil
}

func unlinkAt(dir int, name string, flags int) error {
	p, err := syscall.BytePtrFromString(name)
	if err != nil {
		return err
	}
	_, _, errno := syscall.Syscall(syscall.SYS_UNLINKAT, uintptr(dir), uintptr(unsafe.Pointer(p)), uintptr(flags))
	return errnoError(errno)
}

func symlinkAt(target string, dir int, name string) error {
	t, err := syscall.BytePtrFromString(target)
	if err != nil {
		return err
	}
	p, err := syscall.BytePtrFromString(name)
	if err != nil {
		return err
	}
	_, _, errno := syscall.Syscall(syscall.SYS_SYMLINKAT, uintptr(unsafe.Pointer(t)), uintptr(dir), uintptr(unsafe.Pointer(p)))
	return errnoError(errno)
}

func linkAt(fromDir int, from string, toDir int, to string) error {
	return twoNames(syscall.SYS_LINKAT, fromDir, from, toDir, to, 0)
}

func renameAt(fromDir int, from string, toDir int, to string, flags uintptr) error {
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
	return errnoError(errno)
}

// setTimes sets access and modification time of an open file.
func setTimes(fd int, seconds, nanoseconds int64) error {
	t := syscall.Timespec{Sec: seconds, Nsec: nanoseconds}
	times := [2]syscall.Timespec{t, t}
	_, _, errno := syscall.Syscall6(syscall.SYS_UTIMENSAT, uintptr(fd), 0, uintptr(unsafe.Pointer(&times)), 0, 0, 0)
	return errnoError(errno)
}

func errnoError(errno syscall.Errno) error {
	if errno != 0 {
		return errno
	}
	return nil
}
