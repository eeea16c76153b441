package main

import (
	"fmt"
	"os"
	"runtime"
	"syscall"
	"unsafe"
)

// as runs f with the rights of who, on a thread of its own meanwhile; nil means
// with the runner's own. It must be short: nothing in f may wait for a client.
//
// SECURITY: the thread's filesystem ids and groups change, and with a filesystem
// uid other than 0 the kernel takes the file capabilities out of the effective set.
// Both are read back: setfsuid and setfsgid do not report a refusal. The Go runtime
// starts no thread from a locked one, so nothing inherits the ids.
func as(who *account, f func() error) error {
	if who == nil || int(who.UID) == os.Geteuid() {
		return f()
	}
	runtime.LockOSThread()
	groups, err := assume(who)
	if err == nil {
		err = runOn(f)
	}
	if restore(groups) {
		runtime.UnlockOSThread()
	}
	// A thread that could not be restored stays locked and ends with its goroutine.
	return err
}

// runOn turns a panic of f into an error, so that the thread is always restored.
func runOn(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("file call panicked: %v", p)
		}
	}()
	return f()
}

func assume(who *account) (groups []uint32, err error) {
	groups, err = threadGroups()
	if err != nil {
		return nil, fmt.Errorf("read groups: %w", err)
	}
	for _, g := range groups {
		if g != who.GID {
			if err := setThreadGroups(nil); err != nil {
				return nil, fmt.Errorf("drop groups: %w", err)
			}
			break
		}
	}
	setFsID(syscall.SYS_SETFSGID, who.GID)
	setFsID(syscall.SYS_SETFSUID, who.UID)
	if fsID(syscall.SYS_SETFSGID) != who.GID || fsID(syscall.SYS_SETFSUID) != who.UID {
		return groups, fmt.Errorf("cannot act as user %s: the runner lacks the right to change ids", who.Name)
	}
	return groups, nil
}

func restore(groups []uint32) bool {
	uid, gid := uint32(os.Geteuid()), uint32(os.Getegid())
	setFsID(syscall.SYS_SETFSUID, uid)
	setFsID(syscall.SYS_SETFSGID, gid)
	if len(groups) > 0 && setThreadGroups(groups) != nil {
		return false
	}
	return fsID(syscall.SYS_SETFSUID) == uid && fsID(syscall.SYS_SETFSGID) == gid
}

func setFsID(call uintptr, id uint32) {
	syscall.RawSyscall(call, uintptr(id), 0, 0)
}

// fsID reads an id back: an impossible one changes nothing and returns the present one.
func fsID(call uintptr) uint32 {
	id, _, _ := syscall.RawSyscall(call, ^uintptr(0), 0, 0)
	return uint32(id)
}

func threadGroups() ([]uint32, error) {
	n, _, errno := syscall.RawSyscall(syscall.SYS_GETGROUPS, 0, 0, 0)
	if errno != 0 || n == 0 {
		return nil, errnoError(errno)
	}
	groups := make([]uint32, n)
	_, _, errno = syscall.RawSyscall(syscall.SYS_GETGROUPS, n, uintptr(unsafe.Pointer(&groups[0])), 0)
	return groups, errnoError(errno)
}

func setThreadGroups(groups []uint32) error {
	var first unsafe.Pointer
	if len(groups) > 0 {
		first = unsafe.Pointer(&groups[0])
	}
	_, _, errno := syscall.RawSyscall(syscall.SYS_SETGROUPS, uintptr(len(groups)), uintptr(first), 0)
	return errnoError(errno)
}
