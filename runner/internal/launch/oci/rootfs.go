package oci

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"sandglass/runner/internal/launch/hostdir"
	"sandglass/runner/internal/launch/mount"
)

// A layer is a folder of the host, or an image, that is mounted in the root filesystem: read-only, or with an upper layer on the disk.
type layer struct {
	Source    string `json:"source"`
	Target    string `json:"target"`
	Recursive bool   `json:"recursive"`
	// Upper and Work are folders on the disk. They make the layer writable.
	Upper string `json:"upper,omitempty"`
	Work  string `json:"work,omitempty"`
	// Empty is an empty folder of the host that a read-only overlay has as its second layer; "" for a bind mount.
	Empty string `json:"empty,omitempty"`
	// Stack is the layers of an image. It replaces Source.
	Stack *stack `json:"stack,omitempty"`
	// points is a folder with the mount points that are missing in this layer; "" for none.
	points string
}

// buildRootfs mounts the root filesystem, parents before children. mounted is the mount point of the disk.
func buildRootfs(j *startJob, mounted string, users *os.File, folders []hostdir.Opened) error {
	for i := range j.Layers {
		l := &j.Layers[i]
		if err := l.mount(j.Rootfs, mounted, users); err != nil {
			return err
		}
		if missing := j.missingPoints(i); len(missing) > 0 {
			if err := l.addPoints(j.Rootfs, filepath.Join(mounted, "places", strconv.Itoa(i)), missing); err != nil {
				return err
			}
			if err := l.mount(j.Rootfs, mounted, users); err != nil {
				return err
			}
		}
	}
	for _, s := range j.Disk.Binds {
		attr := uint64(mount.Nosuid | mount.Nodev)
		if s.Readonly {
			attr |= mount.Readonly
		}
		target, err := mount.OpenPoint(j.Rootfs, s.Target)
		if err != nil {
			return err
		}
		err = mount.Bind(filepath.Join(mounted, s.Path), target, attr, false)
		target.Close()
		if err != nil {
			return err
		}
	}
	if err := j.SocketFolder.mount(j.Rootfs); err != nil {
		return err
	}
	return hostdir.Attach(j.Rootfs, folders)
}

func (l *layer) mount(rootfs, mounted string, users *os.File) error {
	target, err := mount.OpenPoint(rootfs, l.Target)
	if err != nil {
		return err
	}
	defer target.Close()
	if l.Stack != nil {
		return l.mountStack(target, mounted, users)
	}
	if l.Upper != "" {
		return l.mountWritable(rootfs, target, mounted, users)
	}
	if l.Empty == "" {
		return mount.Bind(l.Source, target, mount.Readonly|mount.Nosuid|mount.Nodev, l.Recursive)
	}
	if err := l.mountPrivate(l.Source, target, l.points); err != nil || !l.Recursive {
		return err
	}
	below, err := mount.Below(l.Source)
	if err != nil {
		return err
	}
	for _, path := range below {
		inner, err := mount.OpenPoint(rootfs, filepath.Join(l.Target, path))
		if err != nil {
			return err
		}
		err = l.mountPrivate(filepath.Join(l.Source, path), inner, "")
		inner.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// mountPrivate mounts a folder read-only through an overlay of the machine's own. points, unless it is "", is a folder that becomes the
// topmost layer.
//
// SECURITY: with a bind mount, all machines and the host would share the same inodes. A machine could then watch with inotify when others
// use a file, and a file lock would hold for all of them.
func (l *layer) mountPrivate(source string, target mount.Handle, points string) error {
	upper, lower := points, source
	if points == "" {
		upper, lower = source, l.Empty
	}
	first, err := mount.Open(upper)
	if err != nil {
		return err
	}
	defer first.Close()
	second, err := mount.Open(lower)
	if err != nil {
		return err
	}
	defer second.Close()
	return mount.Overlay(target, "lowerdir="+first.Path()+":"+second.Path())
}

// mountWritable mounts a folder with owners shifted into the sandbox's ids and an upper layer on the disk.
func (l *layer) mountWritable(rootfs string, target mount.Handle, mounted string, users *os.File) error {
	shifted, err := mount.Clone(l.Source, false)
	if err != nil {
		return err
	}
	defer shifted.Close()
	if err := shifted.SetAttr(mount.Readonly|mount.Nosuid|mount.Nodev, int(users.Fd())); err != nil {
		return fmt.Errorf("shift the owners of %s: %w", l.Source, err)
	}
	// An overlay accepts only layers on attached mounts. The target serves as the mount point of both.
	if err := shifted.Attach(target); err != nil {
		return err
	}
	lower, err := mount.OpenPoint(rootfs, l.Target)
	if err != nil {
		return err
	}
	defer lower.Close()
	return l.withUpper(mounted, func(options string) error {
		return mount.Overlay(lower, "lowerdir="+lower.Path()+","+options)
	})
}

// withUpper calls do with the options of an overlay that has its upper layer on the disk.
func (l *layer) withUpper(mounted string, do func(options string) error) error {
	upper, err := mount.Open(filepath.Join(mounted, l.Upper))
	if err != nil {
		return err
	}
	defer upper.Close()
	work, err := mount.Open(filepath.Join(mounted, l.Work))
	if err != nil {
		return err
	}
	defer work.Close()
	return do("upperdir=" + upper.Path() + ",workdir=" + work.Path() + ",metacopy=off,index=off")
}
