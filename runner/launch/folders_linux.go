package launch

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"unsafe"
)

// A folder is one of the host that the session asked to see, and the operator allows.
type folder struct {
	Source   string `json:"source"` // where it really is: no link is on the way
	Target   string `json:"target"`
	Readonly bool   `json:"readonly"`
	// UID and GID are what the folder's owner and group are shown as; 0 where owners cannot be shifted.
	UID int `json:"uid"`
	GID int `json:"gid"`
	// PlaceUID and PlaceGID own what is made for it to be mounted on.
	PlaceUID int `json:"place_uid"`
	PlaceGID int `json:"place_gid"`
}

// A heldFolder is ready to be attached.
type heldFolder struct {
	*folder
	tree tree
}

// holdFolders opens what the session asked for, before anything is mounted that could cover it.
//
// SECURITY: between the daemon's check and this, whoever may write above a folder can put a link in its place. A link anywhere on the
// way is refused, so that what is opened is the folder at the path that was checked; from here on it is held by descriptor.
func holdFolders(folders []folder) ([]heldFolder, error) {
	var held []heldFolder
	for i := range folders {
		t, err := folders[i].hold()
		if err != nil {
			return nil, err
		}
		held = append(held, heldFolder{&folders[i], t})
	}
	return held, nil
}

func (f *folder) hold() (tree, error) {
	fd, errno := openFrom(atCwd, f.Source, syscall.O_CLOEXEC|syscall.O_DIRECTORY|oPath, noMagicLinks|noSymlinks)
	if errno != 0 {
		return tree{}, fmt.Errorf("the folder %s is not there any more, or a link leads to it: %w", f.Source, errno)
	}
	defer syscall.Close(fd)
	st := &syscall.Stat_t{}
	if err := syscall.Fstat(fd, st); err != nil {
		return tree{}, fmt.Errorf("look at %s: %w", f.Source, err)
	}
	cloned, _, errno := syscall.Syscall(sysOpenTree, uintptr(fd), uintptr(unsafe.Pointer(&emptyPath)), openTreeClone|syscall.O_CLOEXEC|atEmptyPath)
	if errno != 0 {
		return tree{}, fmt.Errorf("clone mount %s: %w", f.Source, errno)
	}
	t := tree{int(cloned)}
	if err := f.restrict(t, st); err != nil {
		t.close()
		return tree{}, err
	}
	return t, nil
}

// restrict takes from the mount what the sandbox may not have, and shows the folder's owner as the sandbox's user. Every other owner is nobody.
func (f *folder) restrict(t tree, st *syscall.Stat_t) error {
	attr := uint64(attrNosuid | attrNodev)
	if f.Readonly {
		attr |= attrReadonly
	}
	// SECURITY: what root owns is read as anybody may. Shown as the sandbox's own, files that only root may read would be open to it,
	// and one that it writes and gives the setuid bit would be root's on the host.
	if st.Uid == 0 || st.Gid == 0 || f.UID == 0 || f.GID == 0 {
		if !f.Readonly {
			return fmt.Errorf("%s cannot be writable: its owner or group is root, or owners cannot be shifted here", f.Source)
		}
		return f.set(t, attr, -1)
	}
	users, err := ownerShift(st, f)
	if err != nil {
		return err
	}
	defer users.Close()
	err = f.set(t, attr, int(users.Fd()))
	// Some filesystems cannot shift owners. To be read by anybody is then all there is.
	if f.Readonly && (errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.EPERM)) {
		return f.set(t, attr, -1)
	}
	return err
}

func (f *folder) set(t tree, attr uint64, idmap int) error {
	if err := t.setAttr(attr, idmap); err != nil {
		return fmt.Errorf("restrict the mount of %s: %w", f.Source, err)
	}
	return nil
}

// ownerShift is a namespace whose only use is to say which owner is shown as which.
func ownerShift(st *syscall.Stat_t, f *folder) (*os.File, error) {
	return newUserNamespace(
		[]syscall.SysProcIDMap{{ContainerID: int(st.Uid), HostID: f.UID, Size: 1}},
		[]syscall.SysProcIDMap{{ContainerID: int(st.Gid), HostID: f.GID, Size: 1}},
	)
}

// attachFolders mounts them, those above before those below. What is missing to mount on is made where the session may write; a place in
// another folder of the host has to be there.
func attachFolders(rootfs string, held []heldFolder) error {
	for _, f := range held {
		if err := f.makePlace(rootfs); err != nil {
			return err
		}
	}
	for _, f := range held {
		target, err := mountPoint(rootfs, f.Target)
		if err != nil {
			return err
		}
		err = f.tree.attach(target)
		target.close()
		if err != nil {
			return err
		}
	}
	return nil
}

// makePlace makes what is missing of the way to the target.
func (f *folder) makePlace(rootfs string) error {
	at, err := openPath(rootfs)
	if err != nil {
		return err
	}
	for _, name := range strings.Split(strings.Trim(filepath.Clean(f.Target), "/"), "/") {
		next, err := f.step(at, name)
		at.close()
		if err != nil {
			return fmt.Errorf("make %s to mount on: %w", f.Target, err)
		}
		at = next
	}
	at.close()
	return nil
}

// step goes one folder down.
//
// SECURITY: an earlier run of the sandbox may have left anything there; a link is refused.
func (f *folder) step(at place, name string) (place, error) {
	const flags = syscall.O_CLOEXEC | syscall.O_DIRECTORY | oPath
	fd, errno := openFrom(at.fd, name, flags, noMagicLinks|noSymlinks|beneath)
	if errno == syscall.ENOENT {
		if err := syscall.Mkdirat(at.fd, name, 0o755); err != nil {
			return place{}, err
		}
		if err := syscall.Fchownat(at.fd, name, f.PlaceUID, f.PlaceGID, 0x100 /* AT_SYMLINK_NOFOLLOW */); err != nil {
			return place{}, err
		}
		fd, errno = openFrom(at.fd, name, flags, noMagicLinks|noSymlinks|beneath)
	}
	if errno != 0 {
		return place{}, errno
	}
	return place{name, fd}, nil
}
