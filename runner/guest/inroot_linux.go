package guest

import (
	"fmt"
	"os"
	"syscall"
	"unsafe"
)

const (
	sysOpenat2    = 437
	oPath         = 0x200000
	resolveInRoot = 0x10
)

type openHow struct{ flags, mode, resolve uint64 }

// inRoot finds a place in the session's root as a program there would: a link that the session left leads nowhere else.
func inRoot(path string) (*os.File, error) {
	root, err := syscall.Open(rootDir, oPath|syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open root: %w", err)
	}
	defer syscall.Close(root)
	name, err := syscall.BytePtrFromString(path)
	if err != nil {
		return nil, err
	}
	how := openHow{flags: oPath | syscall.O_CLOEXEC, resolve: resolveInRoot}
	fd, _, errno := syscall.Syscall6(sysOpenat2, uintptr(root), uintptr(unsafe.Pointer(name)), uintptr(unsafe.Pointer(&how)), unsafe.Sizeof(how), 0, 0)
	if errno != 0 {
		return nil, fmt.Errorf("find %s: %w", path, errno)
	}
	return os.NewFile(fd, path), nil
}

func fdPath(file *os.File) string { return fmt.Sprintf("/proc/self/fd/%d", file.Fd()) }
