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
	// Bound of the memory for times of folders, which are set at the end. Folders beyond it keep the time of unpacking.
	maxTimesBytes = 32 << 20
)

// setOwnerAndMode sets owner, mode and attributes of a file or folder that is no link.
//
// Set-user-id bits stay: sandboxes see the layer through a nosuid mount, and other users cannot reach it.
func (l *layer) setOwnerAndMode(name string, header *tar.Header) error {
	if err := own(name, header); err != nil {
		return err
	}
	// After the owner: changing the owner clears some bits.
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

// SECURITY: file capabilities, security labels and attributes of overlayfs, which could redirect it to other folders, are never taken from a
// layer.
func isHarmless(attribute string) bool {
	return strings.HasPrefix(attribute, "user.") && !strings.HasPrefix(attribute, "user.overlay.")
}

// isTooLong recognizes an attribute that is too large for this filesystem. It is left out. ext4 reports ENOSPC for it; if the disk is really
// full, the next write fails.
func isTooLong(err error) bool {
	return err == syscall.ENOSPC || err == syscall.E2BIG || err == syscall.ERANGE
}

func own(name string, header *tar.Header) error {
	if header.Uid < 0 || header.Uid > maxID || header.Gid < 0 || header.Gid > maxID {
		return invalid(header.Name, "its owner is not a valid id")
	}
	err := syscall.Lchown(name, header.Uid, header.Gid)
	if err == syscall.EINVAL {
		// A user namespace without this id.
		err = syscall.Lchown(name, nobody, nobody)
	}
	return err
}

// A dirTime is the time of a folder. It is set at the end, because every new entry changes it.
type dirTime struct {
	name string
	time time.Time
}

func (l *layer) rememberTime(name string, header *tar.Header) {
	if l.timesBytes += len(name) + 64; l.timesBytes < maxTimesBytes {
		l.times = append(l.times, dirTime{name, header.ModTime})
	}
}

// setTimes ignores errors: a later entry may have replaced the folder.
func (l *layer) setTimes() {
	for i := len(l.times) - 1; i >= 0; i-- {
		_ = setTime(l.times[i].name, l.times[i].time)
	}
}

// setTime sets access and modification time. It does not follow a link.
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
