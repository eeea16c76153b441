package launch

import (
	"fmt"
	"os"
	"strings"
	"syscall"
)

// A stack is the layers of an image: folders below one folder, highest first.
type stack struct {
	Base  string   `json:"base"`
	Names []string `json:"names"`
	// Scratch is an empty folder of the host, on which the layers with their shifted owners are attached while the overlay is mounted;
	// "" for layers whose owners cannot be shifted.
	Scratch string `json:"scratch"`
	// UserXattrs: the layers say what they hide in the way that an ordinary user may.
	UserXattrs bool `json:"user_xattrs"`
}

// mount shows the union of the layers at target, under the folder over unless that is "". more are options beyond those that name the layers.
func (s *stack) mount(target place, users *os.File, over, more string) error {
	base, err := s.open(users)
	if err != nil {
		return err
	}
	defer base.close()
	if s.Scratch != "" {
		// The overlay keeps what it needs. Nothing of the sandbox has to see the folder that every image is in.
		defer syscall.Unmount(s.Scratch, syscall.MNT_DETACH)
	}
	lowers := make([]string, 0, len(s.Names)+1)
	if over != "" {
		top, err := openPath(over)
		if err != nil {
			return err
		}
		defer top.close()
		lowers = append(lowers, top.path())
	}
	for _, name := range s.Names {
		lower, err := openBelow(base, name)
		if err != nil {
			return err
		}
		defer lower.close()
		lowers = append(lowers, lower.path())
	}
	if s.UserXattrs {
		more += ",userxattr"
	}
	// Named by descriptor, the options of as many layers as an image may have fit in the one page that the kernel takes.
	return overlay(target, "lowerdir="+strings.Join(lowers, ":")+more+","+followNothing)
}

// open holds the folder that the layers are in, with owners shifted into the ids of the namespace.
func (s *stack) open(users *os.File) (place, error) {
	if s.Scratch == "" {
		return openPath(s.Base)
	}
	shifted, err := cloneTree(s.Base, false)
	if err != nil {
		return place{}, err
	}
	if err := shifted.setAttr(attrReadonly|attrNosuid|attrNodev, int(users.Fd())); err != nil {
		shifted.close()
		return place{}, fmt.Errorf("shift the owners of %s: %w", s.Base, err)
	}
	scratch, err := openPath(s.Scratch)
	if err == nil {
		// An overlay takes its layers only from mounts that are attached.
		err = shifted.attach(scratch)
		scratch.close()
	}
	if err != nil {
		shifted.close()
		return place{}, err
	}
	return place{s.Base, shifted.fd}, nil
}

// openBelow holds a folder below another. A link on the way is refused.
func openBelow(base place, name string) (place, error) {
	fd, errno := openFrom(base.fd, name, syscall.O_DIRECTORY|oPath, noMagicLinks|noSymlinks|beneath)
	if errno != 0 {
		return place{}, fmt.Errorf("open layer %s: %w", name, errno)
	}
	return place{name, fd}, nil
}

// showStack shows an image: as it is, or under an upper layer on the disk.
func (l *layer) showStack(target place, mounted string, users *os.File) error {
	if l.Upper == "" {
		return l.Stack.mount(target, users, l.places, "")
	}
	return l.withChanges(mounted, func(changes string) error {
		return l.Stack.mount(target, users, "", ","+changes)
	})
}
