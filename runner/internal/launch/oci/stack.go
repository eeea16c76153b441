package oci

import (
	"fmt"
	"os"
	"strings"
	"syscall"

	"sandglass/runner/internal/launch/mount"
)

// A stack is the unpacked layers of an image: folders below one base folder, the topmost first.
type stack struct {
	Base  string   `json:"base"`
	Names []string `json:"names"`
	// Scratch is an empty folder of the host, on which the base folder with shifted owners is attached while the overlay is mounted; "" on
	// hosts without idmapped mounts.
	Scratch string `json:"scratch"`
	// UserXattrs: the layers have their overlay attributes in the user namespace (user.overlay.*), as an ordinary user needs.
	UserXattrs bool `json:"user_xattrs"`
}

// mount mounts an overlay of the layers on target. top, unless it is "", is a folder that becomes the topmost layer. options are added to
// those that name the layers.
func (s *stack) mount(target mount.Handle, users *os.File, top, options string) error {
	base, err := s.open(users)
	if err != nil {
		return err
	}
	defer base.Close()
	if s.Scratch != "" {
		// The overlay keeps its own references. The sandbox must not see the folder that holds every image.
		defer syscall.Unmount(s.Scratch, syscall.MNT_DETACH)
	}
	lowers := make([]string, 0, len(s.Names)+1)
	if top != "" {
		first, err := mount.Open(top)
		if err != nil {
			return err
		}
		defer first.Close()
		lowers = append(lowers, first.Path())
	}
	for _, name := range s.Names {
		lower, err := mount.OpenBelow(base, name)
		if err != nil {
			return fmt.Errorf("open layer %s: %w", name, err)
		}
		defer lower.Close()
		lowers = append(lowers, lower.Path())
	}
	if s.UserXattrs {
		options += ",userxattr"
	}
	// The kernel takes one page of options. Named by descriptor, the layers of any image fit.
	return mount.Overlay(target, "lowerdir="+strings.Join(lowers, ":")+options)
}

// open opens the base folder, with owners shifted into the ids of the user namespace.
func (s *stack) open(users *os.File) (mount.Handle, error) {
	if s.Scratch == "" {
		return mount.Open(s.Base)
	}
	shifted, err := mount.Clone(s.Base, false)
	if err != nil {
		return mount.Handle{}, err
	}
	if err := shifted.SetAttr(mount.Readonly|mount.Nosuid|mount.Nodev, int(users.Fd())); err != nil {
		shifted.Close()
		return mount.Handle{}, fmt.Errorf("shift the owners of %s: %w", s.Base, err)
	}
	scratch, err := mount.Open(s.Scratch)
	if err == nil {
		// An overlay accepts only layers on attached mounts.
		err = shifted.Attach(scratch)
		scratch.Close()
	}
	if err != nil {
		shifted.Close()
		return mount.Handle{}, err
	}
	return shifted.At(s.Base), nil
}

// mountStack mounts an image: read-only, or with an upper layer on the disk.
func (l *layer) mountStack(target mount.Handle, mounted string, users *os.File) error {
	if l.Upper == "" {
		return l.Stack.mount(target, users, l.points, "")
	}
	return l.withUpper(mounted, func(options string) error {
		return l.Stack.mount(target, users, "", ","+options)
	})
}
