// Package archive unpacks tar archives into a sandbox and packs its files into them.
package archive

import (
	"archive/tar"
	"io"
	"os"
	"path"
	"strings"
	"syscall"

	"sandglass/runner/internal/config"
	"sandglass/runner/internal/files"
	"sandglass/runner/internal/sys"
	"sandglass/runner/internal/wire"
)

const maxDeferredModes = 100_000

// requests answers the requests about archives.
type requests struct{ cfg *config.Config }

// Streams answer the requests about archives.
func Streams(cfg *config.Config) map[string]wire.StreamHandler {
	r := &requests{cfg}
	return map[string]wire.StreamHandler{"archive.put": r.put, "archive.get": r.get}
}

func (r *requests) put(s *wire.Stream, q *wire.Request) error {
	args := struct {
		files.Target
		Atomic bool `json:"atomic"`
	}{}
	if err := q.Decode(&args); err != nil {
		return err
	}
	if args.Path == "" && args.PathBase64 == "" {
		args.Path = "."
	}
	space, where, err := args.Resolve(r.cfg)
	if err != nil {
		return err
	}
	dest, err := newDestination(space, files.TrimSlashes(where), args.Atomic)
	if err != nil {
		return err
	}
	defer dest.close()
	// Names in the archive are relative to the destination.
	inside := *space
	if inside.Workdir, err = files.DescriptorPath(int(dest.top.Fd())); err != nil {
		return err
	}
	into := &unpacker{space: &inside, top: dest.top, dir: -1}
	defer into.leave()
	chunks := &wire.ChunkReader{Stream: s}
	err = s.Reply(wire.Fields{"ok": true})
	if err == nil {
		err = into.unpack(chunks)
	}
	if err == nil {
		// Padding follows the end of the archive.
		_, err = io.Copy(io.Discard, chunks)
	}
	if err == nil {
		err = dest.commit()
	}
	if err != nil {
		// Undo before reporting the error, so that the client can repeat the request.
		dest.undo()
		return chunks.Fail(err)
	}
	return s.Send("done", wire.Fields{"ok": true, "entries": into.entries, "size": into.size}, nil)
}

// An unpacker unpacks a tar into one directory and nowhere else.
//
// SECURITY: names are checked as text first, so that an unsafe one is rejected regardless of what is on the disk.
// Then every directory is opened by descriptor, without following links, and the last name is created exclusively. So
// an archive cannot write through a link, whoever created it.
type unpacker struct {
	space   *files.Space
	top     *os.File
	entries int
	size    int64
	parent  string // directory of the last entry
	dir     int
	modes   []deferredMode
}

// A deferredMode is the mode of a directory that its owner may not write to. It is set at the end.
type deferredMode struct {
	name string
	mode uint32
}

func (u *unpacker) unpack(r io.Reader) error {
	archive := tar.NewReader(r)
	for {
		header, err := archive.Next()
		if err == io.EOF {
			return u.setModes()
		}
		if err != nil {
			return archiveError(err)
		}
		if header.Typeflag == tar.TypeXGlobalHeader {
			continue
		}
		if err := u.add(header, archive); err != nil {
			return err
		}
		u.entries++
	}
}

func (u *unpacker) add(header *tar.Header, content io.Reader) error {
	name, err := safeName(header.Name)
	if err != nil {
		return unsafeEntry(header.Name, err.Error())
	}
	if name == "." {
		return nil // the destination itself
	}
	switch header.Typeflag {
	case tar.TypeDir:
		err = u.space.Do(func() error { return u.addDir(name, header) })
	case tar.TypeReg, tar.TypeRegA, tar.TypeGNUSparse, tar.TypeCont:
		err = u.addFile(name, header, content)
	case tar.TypeSymlink:
		err = u.space.Do(func() error { return u.addSymlink(name, header) })
	case tar.TypeLink:
		err = u.space.Do(func() error { return u.addLink(name, header) })
	case tar.TypeChar, tar.TypeBlock, tar.TypeFifo:
		err = unsafeEntry(header.Name, "devices and fifos are not unpacked")
	default:
		err = unsafeEntry(header.Name, "unknown kind of entry")
	}
	switch err {
	case syscall.ELOOP:
		return unsafeEntry(header.Name, "its path leads through a symbolic link")
	case syscall.EXDEV:
		return unsafeEntry(header.Name, "its path leads to another filesystem")
	}
	return u.space.Explain(header.Name, err)
}

func (u *unpacker) addDir(name string, header *tar.Header) error {
	dir, base, err := u.enter(name)
	if err != nil {
		return err
	}
	mode := uint32(header.Mode) & 0o777
	if err := syscall.Mkdirat(dir, base, mode|0o700); err != nil {
		if err != syscall.EEXIST {
			return err
		}
		st, err := sys.StatAt(dir, base)
		if err != nil {
			return err
		}
		if st.Mode&syscall.S_IFMT == syscall.S_IFLNK {
			return syscall.ELOOP
		}
		if st.Mode&syscall.S_IFMT != syscall.S_IFDIR {
			return syscall.ENOTDIR
		}
	}
	if mode&0o700 != 0o700 {
		if len(u.modes) >= maxDeferredModes {
			return unsafeEntry(name, "too many directories that their owner may not write to")
		}
		u.modes = append(u.modes, deferredMode{name, mode})
		return nil
	}
	return files.SetDirMode(dir, base, mode)
}

func (u *unpacker) addFile(name string, header *tar.Header, content io.Reader) error {
	var file *os.File
	err := u.space.Do(func() error {
		dir, base, err := u.enter(name)
		if err != nil {
			return err
		}
		if err := clearName(dir, base, header.Size); err != nil {
			return err
		}
		fd, err := sys.OpenAt(dir, base, syscall.O_WRONLY|syscall.O_CREAT|syscall.O_EXCL, 0o600)
		if err == nil {
			file = os.NewFile(uintptr(fd), base)
		}
		return err
	})
	if err != nil {
		return err
	}
	defer file.Close()
	n, err := io.Copy(struct{ io.Writer }{file}, content)
	u.size += n
	if err != nil {
		u.space.Do(func() error { return sys.UnlinkAt(u.dir, path.Base(name), 0) })
		return archiveOrDisk(err)
	}
	return u.space.Do(func() error {
		fd := int(file.Fd())
		// SECURITY: setuid, setgid and sticky bits are dropped.
		if err := syscall.Fchmod(fd, uint32(header.Mode)&0o777); err != nil {
			return err
		}
		return sys.SetTimes(fd, header.ModTime.Unix(), int64(header.ModTime.Nanosecond()))
	})
}

// clearName removes an existing file of that name. It rejects a size that the disk does not have, before a sparse
// entry of a few bytes fills it.
func clearName(dir int, name string, size int64) error {
	disk := &syscall.Statfs_t{}
	if err := syscall.Fstatfs(dir, disk); err == nil && size > int64(disk.Bavail)*disk.Bsize {
		return syscall.ENOSPC
	}
	if err := sys.UnlinkAt(dir, name, 0); err != nil && err != syscall.ENOENT {
		return err
	}
	return nil
}

// enter returns the directory of name, created if missing, and the last part of name. The directory stays open for
// following entries in it or below it.
func (u *unpacker) enter(name string) (int, string, error) {
	parent, base := path.Dir(name), path.Base(name)
	if u.dir >= 0 && u.parent == parent {
		return u.dir, base, nil
	}
	from, rest := int(u.top.Fd()), parent
	if u.dir >= 0 && strings.HasPrefix(parent, u.parent+"/") {
		from, rest = u.dir, parent[len(u.parent)+1:]
	}
	dir, err := makeBelow(from, rest)
	u.leave()
	if err != nil {
		return -1, "", err
	}
	u.dir, u.parent = dir, parent
	return dir, base, nil
}

func (u *unpacker) leave() {
	if u.dir >= 0 {
		syscall.Close(u.dir)
		u.dir = -1
	}
}

// makeBelow is sys.OpenBelow, but creates missing directories.
func makeBelow(dir int, name string) (int, error) {
	found, err := sys.OpenBelow(dir, name)
	if err != syscall.ENOENT {
		return found, err
	}
	at, err := sys.OpenDirAt(dir, ".")
	for _, part := range strings.Split(name, "/") {
		if err != nil {
			return -1, err
		}
		above := at
		if err = syscall.Mkdirat(above, part, 0o755); err == nil || err == syscall.EEXIST {
			at, err = sys.OpenDirAt(above, part)
		}
		syscall.Close(above)
	}
	return at, err
}

// open returns the directory of an existing name. The caller closes it.
func (u *unpacker) open(name string) (int, string, error) {
	dir, err := sys.OpenBelow(int(u.top.Fd()), path.Dir(name))
	return dir, path.Base(name), err
}

func (u *unpacker) setModes() error {
	return u.space.Do(func() error {
		for i := len(u.modes) - 1; i >= 0; i-- {
			if err := u.setMode(u.modes[i]); err != nil {
				return u.space.Explain(u.modes[i].name, err)
			}
		}
		return nil
	})
}

func (u *unpacker) setMode(deferred deferredMode) error {
	dir, base, err := u.open(deferred.name)
	if err != nil {
		return err
	}
	defer syscall.Close(dir)
	return files.SetDirMode(dir, base, deferred.mode)
}
