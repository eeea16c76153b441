// Package hostdir mounts folders of the host, which the operator allows and the session asks for, into the root filesystem of a machine.
package hostdir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"sandglass/runner/internal/launch/mount"
	"sandglass/runner/internal/launch/userns"
)

// A Folder is a folder of the host and its mount point in the machine.
type Folder struct {
	Source   string `json:"source"` // resolved by the daemon: no component is a link
	Target   string `json:"target"`
	Readonly bool   `json:"readonly"`
	// UID and GID are the ids that the folder's owner and group are shown as; 0 where this host has no idmapped mounts.
	UID int `json:"uid"`
	GID int `json:"gid"`
	// PointUID and PointGID own the folders that are made for the mount point.
	PointUID int `json:"point_uid"`
	PointGID int `json:"point_gid"`
}

// An Opened folder is a detached mount with its restrictions, ready to be attached.
type Opened struct {
	*Folder
	Tree mount.Tree
}

// Open opens the folders. The caller does so before it mounts anything that could cover them.
//
// SECURITY: after the daemon's check, a process that may write above a folder can replace it with a link. A link in any component is
// refused, so that the folder that is opened is the one at the path that was checked. From here on it is used by descriptor.
func Open(folders []Folder) ([]Opened, error) {
	var opened []Opened
	for i := range folders {
		t, err := folders[i].open()
		if err != nil {
			return nil, err
		}
		opened = append(opened, Opened{&folders[i], t})
	}
	return opened, nil
}

func (f *Folder) open() (mount.Tree, error) {
	h, err := mount.OpenFolder(f.Source)
	if err != nil {
		return mount.Tree{}, fmt.Errorf("the folder %s is gone, or its path contains a link: %w", f.Source, err)
	}
	defer h.Close()
	st := &syscall.Stat_t{}
	if err := syscall.Fstat(h.FD, st); err != nil {
		return mount.Tree{}, fmt.Errorf("stat %s: %w", f.Source, err)
	}
	t, err := mount.CloneAt(h)
	if err != nil {
		return mount.Tree{}, err
	}
	if err := f.restrict(t, st); err != nil {
		t.Close()
		return mount.Tree{}, err
	}
	return t, nil
}

// restrict sets the attributes of the mount and shows the folder's owner as the sandbox's user. Every other owner is shown as nobody.
func (f *Folder) restrict(t mount.Tree, st *syscall.Stat_t) error {
	attr := uint64(mount.Nosuid | mount.Nodev)
	if f.Readonly {
		attr |= mount.Readonly
	}
	// SECURITY: a folder of root keeps its owner and can only be read. Shown as the sandbox's own, files that only root may read would be
	// open to the sandbox, and a setuid file that it writes would be root's on the host.
	if st.Uid == 0 || st.Gid == 0 || f.UID == 0 || f.GID == 0 {
		if !f.Readonly {
			return fmt.Errorf("%s cannot be writable: its owner or group is root, or owners cannot be shifted here", f.Source)
		}
		return f.setAttr(t, attr, -1)
	}
	ids, err := ownerMap(st, f)
	if err != nil {
		return err
	}
	defer ids.Close()
	err = f.setAttr(t, attr, int(ids.Fd()))
	// Some filesystems have no idmapped mounts. A read-only folder is then shown with its own owners.
	if f.Readonly && (errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.EPERM)) {
		return f.setAttr(t, attr, -1)
	}
	return err
}

func (f *Folder) setAttr(t mount.Tree, attr uint64, idmap int) error {
	if err := t.SetAttr(attr, idmap); err != nil {
		return fmt.Errorf("restrict the mount of %s: %w", f.Source, err)
	}
	return nil
}

// ownerMap is the id map that shows the folder's owner and group as UID and GID.
func ownerMap(st *syscall.Stat_t, f *Folder) (*os.File, error) {
	return userns.NewMap(
		[]syscall.SysProcIDMap{{ContainerID: int(st.Uid), HostID: f.UID, Size: 1}},
		[]syscall.SysProcIDMap{{ContainerID: int(st.Gid), HostID: f.GID, Size: 1}},
	)
}

// Attach mounts the folders, which are sorted with parents before children. It makes missing mount points where the session may write. A
// mount point inside another folder of the host must exist already.
func Attach(rootfs string, opened []Opened) error {
	for _, f := range opened {
		if err := f.makePoint(rootfs); err != nil {
			return err
		}
	}
	for _, f := range opened {
		target, err := mount.OpenPoint(rootfs, f.Target)
		if err != nil {
			return err
		}
		err = f.Tree.Attach(target)
		target.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// makePoint makes the missing folders on the path to the target.
func (f *Folder) makePoint(rootfs string) error {
	at, err := mount.Open(rootfs)
	if err != nil {
		return err
	}
	for _, name := range strings.Split(strings.Trim(filepath.Clean(f.Target), "/"), "/") {
		next, err := f.descend(at, name)
		at.Close()
		if err != nil {
			return fmt.Errorf("make mount point %s: %w", f.Target, err)
		}
		at = next
	}
	at.Close()
	return nil
}

// descend opens a folder, which it makes if it is missing.
//
// SECURITY: an earlier run of the sandbox may have put a link there. It is refused.
func (f *Folder) descend(at mount.Handle, name string) (mount.Handle, error) {
	const atSymlinkNofollow = 0x100
	next, err := mount.OpenBelow(at, name)
	if err != syscall.ENOENT {
		return next, err
	}
	if err := syscall.Mkdirat(at.FD, name, 0o755); err != nil {
		return mount.Handle{}, err
	}
	if err := syscall.Fchownat(at.FD, name, f.PointUID, f.PointGID, atSymlinkNofollow); err != nil {
		return mount.Handle{}, err
	}
	return mount.OpenBelow(at, name)
}
