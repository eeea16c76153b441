package archive

import (
	"archive/tar"
	"strings"
	"syscall"

	"sandglass/runner/internal/files"
	"sandglass/runner/internal/sys"
)

// addSymlink creates a link with any target.
//
// SECURITY: a link is data of the sandbox, which could create the same one itself. A later entry must never be
// written through it; enter ensures that.
func (u *unpacker) addSymlink(name string, header *tar.Header) error {
	target := header.Linkname
	if target == "" || len(target) >= files.MaxPathBytes || strings.IndexByte(target, 0) >= 0 {
		return unsafeEntry(header.Name, "its target is not a path")
	}
	dir, base, err := u.enter(name)
	if err != nil {
		return err
	}
	if err := clearName(dir, base, 0); err != nil {
		return err
	}
	return sys.SymlinkAt(target, dir, base)
}

func (u *unpacker) addLink(name string, header *tar.Header) error {
	target, err := safeName(header.Linkname)
	if err != nil {
		return unsafeEntry(header.Name, "a hard link leaves the directory")
	}
	if target == name {
		return nil
	}
	source, sourceBase, err := u.open(target)
	if err != nil {
		return err
	}
	defer syscall.Close(source)
	st, err := sys.StatAt(source, sourceBase)
	if err != nil {
		return err
	}
	if st.Mode&syscall.S_IFMT != syscall.S_IFREG {
		return unsafeEntry(header.Name, "a hard link to something that is not a regular file")
	}
	dir, base, err := u.enter(name)
	if err != nil {
		return err
	}
	if err := clearName(dir, base, 0); err != nil {
		return err
	}
	return sys.LinkAt(source, sourceBase, dir, base)
}
