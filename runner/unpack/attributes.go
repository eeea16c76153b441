package unpack

import (
	"archive/tar"
	"strings"
	"syscall"
	"time"
	"unsafe"
)

const (
	nobody   = 65534
	maxID    = 1<<32 - 2
	xattrPax = "SCHILY.xattr."
	// What is remembered of folders until their times can be set; beyond it times are what they are.
	maxTimesBytes = 32 << 20
)

// setOwnerAndMode gives a file or folder its owner, mode and attributes. It is no link.
//
// The bits for set-user-id and the like stay: sandboxes see the layer through a mount where they have no effect, and nobody else can
// reach it.
func (l *layer) setOwnerAndMode(name string, header *tar.Header) error {
	if err := own(name, header); err != nil {
		return err
	}
	// After the owner, whose change takes some bits away.
	if err := syscall.Chmod(name, uint32(header.Mode)&0o7777); err != nil {
		return err
	}
	for key, value := range header.PAXRecords {
		if attribute := strings.TrimPrefix(key, xattrPax); attribute != key && isHarmless(attribute) {
			if err := l.spend(name, int64(len(value))); err != nil {
				return err
			}
			if err := syscall.Setxattr(name, attribute, []byte(value), 0); err != nil && !isUnsupported(err) && !isTooLong(err) {
				return err
			}
		}
	}
	return nil
}

// SECURITY: capabilities of files, labels and what an overlay takes for its own instructions (it could be led to other folders) never
// come out of a layer.
func isHarmless(attribute string) bool {
	return strings.HasPrefix(attribute, "user.") && !strings.HasPrefix(attribute, "user.overlay.")
}

// isTooLong is said of an attribute that this filesystem cannot hold, which is then left out. ext4 says it as if the disk were full; if it is, the next
// write tells.
func isTooLong(err error) bool {
	return err == syscall.ENOSPC || err == syscall.E2BIG || err == syscall.ERANGE
}

func own(name string, header *tar.Header) error {
	if header.Uid < 0 || header.Uid > maxID || header.Gid < 0 || header.Gid > maxID {
		return invalid(header.Name, "its owner is not an id")
	}
	err := syscall.Lchown(name, header.Uid, header.Gid)
	if err == syscall.EINVAL {
		// In a user namespace that has no such id.
		err = syscall.Lchown(name, nobody, nobody)
	}
	return err
}

// A dirTime is that of a folder, which is set last: every entry in it changes it.
type dirTime struct {
	name string
	time time.Time
}

func (l *layer) rememberTime(name string, header *tar.Header) {
	if l.timesBytes += len(name) + 64; l.timesBytes < maxTimesBytes {
		l.times = append(l.times, dirTime{name, header.ModTime})
	}
}

// A folder that a later entry replaced has no time to set.
func (l *layer) setTimes() {
	for i := len(l.times) - 1; i >= 0; i-- {
		_ = setTime(l.times[i].name, l.times[i].time)
	}
}

// setTime sets access and modification time, of a link itself where name is one.
func setTime(name string, t time.Time) error {
	const atCwd, atSymlinkNofollow = -100, 0x100
	p, err := syscall.BytePtrFromString(name)
	if err != nil {
		return err
	}
	spec := syscall.Timespec{Sec: t.Unix(), Nsec: int64(t.Nanosecond())}
	times := [2]syscall.Timespec{spec, spec}
	cwd := atCwd
	_, _, errno := syscall.Syscall6(syscall.SYS_UTIMENSAT, uintptr(cwd), uintptr(unsafe.Pointer(p)), uintptr(unsafe.Pointer(&times)),
		atSymlinkNofollow, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}
