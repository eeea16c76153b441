package unpack

import (
	"archive/tar"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"
)

// A layer unpacks one layer into the folder that is now the root. Paths are absolute: the target folder is the root of this process.
type layer struct {
	opaque     string // name of the attribute that hides the content of a folder in lower layers
	maxBytes   int64
	maxEntries int
	reserve    int64

	entries, skipped int
	bytes            int64
	unchecked        int64 // bytes written since the last check of free space
	parent           string
	times            []dirTime
	timesBytes       int
	buffer           []byte
}

func (l *layer) unpack(input io.Reader) error {
	l.buffer = make([]byte, 4*blockBytes)
	archive := tar.NewReader(input)
	for {
		header, err := archive.Next()
		if err == io.EOF {
			l.setTimes()
			return l.checkSpace()
		}
		if err != nil {
			return invalid("", "not a whole tar archive: "+err.Error())
		}
		if header.Typeflag == tar.TypeXGlobalHeader {
			continue
		}
		if err := l.count(header.Name); err != nil {
			return err
		}
		if err := l.add(header, archive); err != nil {
			return explain(header.Name, err)
		}
	}
}

func (l *layer) add(header *tar.Header, content io.Reader) error {
	name, err := safeName(header.Name)
	if err != nil {
		return err
	}
	base := path.Base(name)
	if strings.HasPrefix(base, whiteoutPrefix) {
		return l.addWhiteout(path.Dir(name), base)
	}
	if name == "/" {
		if header.Typeflag != tar.TypeDir {
			return invalid(header.Name, "the root is not a folder")
		}
		return l.setOwnerAndMode(name, header)
	}
	switch header.Typeflag {
	case tar.TypeDir, tar.TypeReg, tar.TypeRegA, tar.TypeGNUSparse, tar.TypeCont, tar.TypeSymlink, tar.TypeLink, tar.TypeFifo:
	default:
		// SECURITY: a device node would be a device of the host. Entries of unknown kinds are left out too.
		l.skipped++
		return nil
	}
	if err := l.makeParent(path.Dir(name)); err != nil {
		return err
	}
	switch header.Typeflag {
	case tar.TypeDir:
		return l.addDir(name, header)
	case tar.TypeSymlink:
		return l.addSymlink(name, header)
	case tar.TypeLink:
		return l.addLink(name, header)
	case tar.TypeFifo:
		return l.addFifo(name, header)
	}
	return l.addFile(name, header, content)
}

func (l *layer) addDir(name string, header *tar.Header) error {
	if err := l.makeDir(name); err != nil {
		return err
	}
	l.rememberTime(name, header)
	return l.setOwnerAndMode(name, header)
}

func (l *layer) addSymlink(name string, header *tar.Header) error {
	if header.Linkname == "" || len(header.Linkname) > maxPathBytes || strings.IndexByte(header.Linkname, 0) >= 0 {
		return invalid(header.Name, "its target is not a path")
	}
	if err := l.replacing(name, func() error { return syscall.Symlink(header.Linkname, name) }); err != nil {
		return err
	}
	if err := own(name, header); err != nil {
		return err
	}
	return setTime(name, header.ModTime)
}

func (l *layer) addLink(name string, header *tar.Header) error {
	target, err := safeName(header.Linkname)
	if err != nil {
		return invalid(header.Name, "a hard link leads out of the layer")
	}
	if target == name {
		return nil
	}
	info, err := os.Lstat(target)
	if errors.Is(err, fs.ErrNotExist) {
		return invalid(header.Name, "the target of a hard link is not in the layer: "+header.Linkname)
	}
	if err != nil {
		return err
	}
	if info.IsDir() || isWhiteout(info) {
		return invalid(header.Name, "the target of a hard link is not a file: "+header.Linkname)
	}
	return l.replacing(name, func() error { return syscall.Link(target, name) })
}

func (l *layer) addFifo(name string, header *tar.Header) error {
	if err := l.replacing(name, func() error { return syscall.Mkfifo(name, 0o600) }); err != nil {
		return err
	}
	return l.setOwnerAndMode(name, header)
}

// makeParent makes the folders above an entry that have no entry of their own.
func (l *layer) makeParent(name string) error {
	if name == l.parent || name == "/" {
		return nil
	}
	if err := l.makeAll(name, 0); err != nil {
		return err
	}
	l.parent = name
	return nil
}

// makeAll makes a folder and its parents. Links are followed inside the layer, and missing targets are made.
func (l *layer) makeAll(name string, links int) error {
	info, err := os.Stat(name)
	if err == nil {
		if info.IsDir() {
			return nil
		}
		if isWhiteout(info) {
			return l.makeImplied(name)
		}
		return syscall.ENOTDIR
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if target, err := os.Readlink(name); err == nil {
		if links >= maxLinks {
			return syscall.ELOOP
		}
		if !path.IsAbs(target) {
			target = path.Join(path.Dir(name), target)
		}
		return l.makeAll(path.Clean(target), links+1)
	}
	if name == "/" {
		return nil
	}
	if err := l.makeAll(path.Dir(name), links); err != nil {
		return err
	}
	return l.makeImplied(name)
}

func (l *layer) makeImplied(name string) error {
	if err := l.count(name); err != nil {
		return err
	}
	return l.makeDir(name)
}

// makeDir makes one folder, or keeps an existing one. A file of that name is replaced. If the file is a whiteout, the new folder replaces
// one of a lower layer, so it is made opaque.
func (l *layer) makeDir(name string) error {
	if err := checkRealPath(name); err != nil {
		return err
	}
	err := syscall.Mkdir(name, 0o755)
	if err != syscall.EEXIST {
		return err
	}
	info, err := os.Lstat(name)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return nil
	}
	if err := l.remove(name); err != nil {
		return err
	}
	if err := syscall.Mkdir(name, 0o755); err != nil || !isWhiteout(info) {
		return err
	}
	return l.setOpaque(name)
}

// replacing calls create, and removes what an earlier entry made under the name if that is in the way.
func (l *layer) replacing(name string, create func() error) error {
	err := create()
	if err != syscall.EEXIST {
		return err
	}
	if err := l.remove(name); err != nil {
		return err
	}
	return create()
}

func (l *layer) remove(name string) error {
	l.parent = ""
	return os.RemoveAll(name)
}
