package account

import (
	"fmt"
	"os"
	"runtime"
	"syscall"
	"unsafe"

	"sandglass/runner/internal/sys"
)

// The runner's own ids, read once: on a thread that acts as another user, the calls may return that user's.
var OwnUID, ownGID = os.Geteuid(), os.Getegid()

// As runs f with the rights of a user, on a locked thread; nil means with the runner's own rights. f must be short
// and must not wait for a client.
//
// SECURITY: the thread changes its filesystem ids and groups, and with a uid other than 0 the kernel removes the file
// capabilities from the effective set. Both ids are read back, because setfsuid and setfsgid do not report a failure.
// The Go runtime starts no thread from a locked one, so no other thread inherits the ids.
func As(who *User, f func() error) error {
	if who == nil || int(who.UID) == OwnUID {
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

func assume(who *User) (groups []uint32, err error) {
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
	uid, gid := uint32(OwnUID), uint32(ownGID)
	setUserID(uid)
	setGroupID(gid)
	if len(groups) > 0 && setThreadGroups(groups) != nil {
		return false
	}
	return userID() == uid && groupID() == gid
}

// unchanged is an invalid id. A call that sets ids leaves an id unchanged when given it.
const unchanged = ^uintptr(0)

// hasFileIDs tells whether the kernel has separate ids for file access. gVisor does not: there the effective ids
// change instead, and the saved ids allow the way back.
var hasFileIDs = func() bool {
	_, _, errno := syscall.RawSyscall(syscall.SYS_SETFSUID, unchanged, 0, 0)
	return errno == 0
}()

func setUserID(id uint32) { setThreadID(syscall.SYS_SETFSUID, syscall.SYS_SETRESUID, id) }

func setGroupID(id uint32) { setThreadID(syscall.SYS_SETFSGID, syscall.SYS_SETRESGID, id) }

func userID() uint32 { return threadID(syscall.SYS_SETFSUID, syscall.SYS_GETEUID) }

func groupID() uint32 { return threadID(syscall.SYS_SETFSGID, syscall.SYS_GETEGID) }

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
		call = file // with an invalid id the call changes nothing and returns the current one
	}
	id, _, _ := syscall.RawSyscall(call, unchanged, 0, 0)
	return uint32(id)
}

func threadGroups() ([]uint32, error) {
	n, _, errno := syscall.RawSyscall(syscall.SYS_GETGROUPS, 0, 0, 0)
	if errno != 0 || n == 0 {
		return nil, sys.Err(errno)
	}
	groups := make([]uint32, n)
	_, _, errno = syscall.RawSyscall(syscall.SYS_GETGROUPS, n, uintptr(unsafe.Pointer(&groups[0])), 0)
	return groups, sys.Err(errno)
}

func setThreadGroups(groups []uint32) error {
	var first unsafe.Pointer
	if len(groups) > 0 {
		first = unsafe.Pointer(&groups[0])
	}
	_, _, errno := syscall.RawSyscall(syscall.SYS_SETGROUPS, uintptr(len(groups)), uintptr(first), 0)
	return sys.Err(errno)
}
