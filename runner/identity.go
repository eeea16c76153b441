package main

import (
	"fmt"
	"os"
	"runtime"
	"syscall"
	"unsafe"
)

// Asked once: on a thread that acts for another user they may be that user's.
var ownUID, ownGID = os.Geteuid(), os.Getegid()

// as runs f with the rights of who, on a thread of its own meanwhile; nil means
// with the runner's own. It must be short: nothing in f may wait for a client.
//
// SECURITY: the thread's ids for files and its groups change, and with a uid other
// than 0 the kernel takes the file capabilities out of the effective set. Both are
// read back: setfsuid and setfsgid do not report a refusal. The Go runtime starts no
// thread from a locked one, so nothing inherits the ids.
func as(who *account, f func() error) error {
	if who == nil || int(who.UID) == ownUID {
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
	setGroupID(who.GID)
	setUserID(who.UID)
	if groupID() != who.GID || userID() != who.UID {
		return groups, fmt.Errorf("cannot act as user %s: the runner lacks the right to change ids", who.Name)
	}
	return groups, nil
}

func restore(groups []uint32) bool {
	uid, gid := uint32(ownUID), uint32(ownGID)
	setUserID(uid)
	setGroupID(gid)
	if len(groups) > 0 && setThreadGroups(groups) != nil {
		return false
	}
	return userID() == uid && groupID() == gid
}

// unchanged is an id that no user has: given to a call that sets ids, it leaves the one in its place.
const unchanged = ^uintptr(0)

// hasFileIDs: the kernel keeps ids for files apart from the others. gVisor does not; there the effective ids take their place, and the
// saved ones, which stay, are the way back.
var hasFileIDs = func() bool {
	_, _, errno := syscall.RawSyscall(syscall.SYS_SETFSUID, unchanged, 0, 0)
	return errno == 0
}()

func setUserID(id uint32)  { setThreadID(syscall.SYS_SETFSUID, syscall.SYS_SETRESUID, id) }
func setGroupID(id uint32) { setThreadID(syscall.SYS_SETFSGID, syscall.SYS_SETRESGID, id) }
func userID() uint32       { return threadID(syscall.SYS_SETFSUID, syscall.SYS_GETEUID) }
func groupID() uint32      { return threadID(syscall.SYS_SETFSGID, syscall.SYS_GETEGID) }

func setThreadID(file, effective uintptr, id uint32) {
	if hasFileIDs {
		syscall.RawSyscall(file, uintptr(id), 0, 0)
	} else {
		syscall.RawSyscall(effective, unchanged, uintptr(id), unchanged)
	}
}

func threadID(file, effective uintptr) uint32 {
	call := effective
	if hasFileIDs {
		call = file // with an impossible id it changes nothing and returns the present one
	}
	id, _, _ := syscall.RawSyscall(call, unchanged, 0, 0)
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
