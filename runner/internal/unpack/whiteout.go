package unpack

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"
)

const (
	whiteoutPrefix = ".wh."
	opaqueMarker   = ".wh..wh..opq"
	auxPrefix      = ".wh..wh."
)

// addWhiteout hides a name of lower layers. In the tar, a whiteout is a file with a special name; in a layer of an overlay it is a
// character device with the numbers 0 and 0, which is no real device, or an attribute of a folder.
func (l *layer) addWhiteout(dir, base string) error {
	if base == opaqueMarker {
		if err := l.makeParent(dir); err != nil {
			return err
		}
		return l.setOpaque(dir)
	}
	if strings.HasPrefix(base, auxPrefix) {
		l.skipped++ // bookkeeping of another storage driver
		return nil
	}
	hidden := strings.TrimPrefix(base, whiteoutPrefix)
	if hidden == "" || hidden == "." || hidden == ".." {
		return invalid(path.Join(dir, base), "a whiteout without a name")
	}
	if err := l.makeParent(dir); err != nil {
		return err
	}
	name := path.Join(dir, hidden)
	info, err := os.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return syscall.Mknod(name, syscall.S_IFCHR, 0)
	case err != nil:
		return err
	case info.IsDir():
		// The layer itself has a folder of that name, before or after this entry: it replaces the folder below.
		return l.setOpaque(name)
	}
	return nil // a file of this layer hides the one below anyway
}

func (l *layer) setOpaque(dir string) error {
	if err := syscall.Setxattr(dir, l.opaque, []byte("y"), 0); err != nil {
		return fmt.Errorf("mark %s opaque: %w", dir, err)
	}
	return nil
}

func isWhiteout(info os.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && st.Mode&syscall.S_IFMT == syscall.S_IFCHR && st.Rdev == 0
}
