package archive

import (
	"archive/tar"
	"errors"
	"io"
	"os"
	"syscall"
	"time"

	"sandglass/runner/internal/files"
	"sandglass/runner/internal/sys"
	"sandglass/runner/internal/wire"
)

// maxOpenFolders is how many parents of the current directory stay open. Others are closed and opened again from
// below.
const maxOpenFolders = 256

var (
	errMoved  = errors.New("it was moved while it was read")
	errShrank = errors.New("it became shorter while it was read")
	errLong   = wire.Invalid("a path in an archive must be at most %d bytes", maxArchiveName)
)

// A packer writes files to a tar in the state in which it finds them. It leaves out devices, fifos, sockets and files
// of the kernel and, if skips is set, unreadable entries. In place of each it writes a comment: a global pax header,
// which every tar reader skips. Without a tar, it is a dry run that only checks whether everything can be read.
type packer struct {
	space *files.Space
	tar   *tar.Writer
	skips bool
}

func (p *packer) addTop(top *os.File, st *syscall.Stat_t) error {
	if st.Mode&syscall.S_IFMT != syscall.S_IFDIR {
		return p.addFile(top, files.BaseName(top.Name()), st)
	}
	if _, err := top.Seek(0, io.SeekStart); err != nil {
		return err
	}
	return p.addDir(&folder{file: top, st: st}, "", 1)
}

// addDir adds the entries of a directory: first everything but directories, then these, so that the listing need not
// stay open.
func (p *packer) addDir(dir *folder, prefix string, depth int) error {
	var subs []string
	for {
		var names []string
		err := p.space.Do(func() (err error) {
			names, err = dir.file.Readdirnames(1024)
			return err
		})
		for _, name := range names {
			isDir, err := p.add(dir, name, prefix+name)
			if err != nil {
				return err
			}
			if isDir {
				subs = append(subs, name)
			}
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			if err := p.unreadable(prefix, err); err != nil {
				return err
			}
			break
		}
	}
	for _, name := range subs {
		if err := p.addSub(dir, name, prefix+name, depth); err != nil {
			return err
		}
	}
	return nil
}

// add adds one entry, unless it is a directory.
func (p *packer) add(dir *folder, name, path string) (isDir bool, err error) {
	var st *syscall.Stat_t
	var link string
	var file *os.File
	err = p.space.Do(func() (err error) {
		if st, err = sys.StatAt(dir.fd(), name); err != nil {
			return err
		}
		switch st.Mode & syscall.S_IFMT {
		case syscall.S_IFLNK:
			link, err = sys.ReadlinkAt(dir.fd(), name)
		case syscall.S_IFREG:
			file, st, err = files.OpenRegularAt(dir.fd(), name)
		}
		return err
	})
	if file != nil {
		defer file.Close()
	}
	switch {
	case err == syscall.ENOENT:
		return false, nil // removed since the directory was read
	case err == nil && len(path) >= maxArchiveName:
		return false, p.unreadable(path, errLong)
	case err != nil:
		return false, p.unreadable(path, err)
	}
	switch st.Mode & syscall.S_IFMT {
	case syscall.S_IFLNK:
		return false, p.header(&tar.Header{Typeflag: tar.TypeSymlink, Name: path, Linkname: link, Mode: 0o777, ModTime: modTime(st)})
	case syscall.S_IFREG:
		return false, p.addFile(file, path, st)
	case syscall.S_IFDIR:
		return true, nil
	case syscall.S_IFSOCK:
		return false, p.comment("left out: socket ", path)
	case syscall.S_IFIFO:
		return false, p.comment("left out: pipe ", path)
	}
	return false, p.comment("left out: device ", path)
}

func (p *packer) addSub(dir *folder, name, path string, depth int) error {
	var sub *folder
	err := p.space.Do(func() (err error) {
		sub, err = dir.enter(name)
		return err
	})
	if err == syscall.ENOENT {
		return nil
	}
	if err != nil {
		return p.unreadable(path, err)
	}
	defer sub.close()
	if sub.st.Dev != dir.st.Dev && files.IsKernelFilesystem(sub.fd()) {
		return p.comment("left out: kernel files ", path)
	}
	header := &tar.Header{Typeflag: tar.TypeDir, Name: path + "/", Mode: int64(sub.st.Mode & 0o777), ModTime: modTime(sub.st)}
	if err := p.header(header); err != nil {
		return err
	}
	if depth >= maxOpenFolders {
		p.space.Do(func() error { return sub.closeAbove(dir) })
	}
	if err := p.addDir(sub, path+"/", depth+1); err != nil && err != errMoved {
		return err
	}
	if dir.file == nil {
		return p.space.Do(func() error { return sub.openAbove(dir) })
	}
	if sub.file == nil {
		return p.unreadable(path, errMoved)
	}
	return nil
}

// unreadable leaves an entry out with a comment, or returns the error.
func (p *packer) unreadable(path string, err error) error {
	if !p.skips {
		return wire.PathError(path, p.space.Explain(path, err))
	}
	if len(path) > maxArchiveName {
		path = path[:maxArchiveName/2] + "…"
	}
	reason := err.Error()
	var errno syscall.Errno
	if errors.As(err, &errno) {
		reason = errno.Error()
	}
	return p.comment("unreadable: ", path+": "+reason)
}

func (p *packer) comment(kind, what string) error {
	comment := map[string]string{"comment": kind + wire.Text(what)}
	return p.header(&tar.Header{Typeflag: tar.TypeXGlobalHeader, Name: "comment", PAXRecords: comment})
}

func (p *packer) header(header *tar.Header) error {
	if p.tar == nil {
		return nil
	}
	return p.tar.WriteHeader(header)
}

func (p *packer) addFile(file *os.File, path string, st *syscall.Stat_t) error {
	if p.tar == nil {
		return nil
	}
	header := &tar.Header{Typeflag: tar.TypeReg, Name: path, Size: st.Size, Mode: int64(st.Mode & 0o777), ModTime: modTime(st)}
	if err := p.header(header); err != nil {
		return err
	}
	source := &readRecorder{Reader: file}
	n, err := io.Copy(p.tar, io.LimitReader(source, st.Size))
	if n == st.Size || err != nil && source.failed == nil {
		return err
	}
	// The header contains the size: fill up with zeros.
	if _, err := io.CopyN(p.tar, zeros{}, st.Size-n); err != nil {
		return err
	}
	if source.failed != nil {
		return p.unreadable(path, source.failed)
	}
	return p.unreadable(path, errShrank)
}

// A readRecorder remembers an error of reading, to distinguish it from an error of writing.
type readRecorder struct {
	io.Reader
	failed error
}

func (r *readRecorder) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if err != nil && err != io.EOF {
		r.failed = err
	}
	return n, err
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 0
	}
	return len(p), nil
}

func modTime(st *syscall.Stat_t) time.Time { return time.Unix(st.Mtim.Sec, 0) }
