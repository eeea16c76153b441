package main

import (
	"archive/tar"
	"bufio"
	"io"
	"os"
	"syscall"
	"time"
)

const archiveChunk = 256 << 10

// getArchive sends a directory's contents, with names relative to it, or one file under its own name.
func getArchive(run *runner, s *stream, q *request) error {
	args := &target{}
	if err := q.decode(args); err != nil {
		return err
	}
	space, where, err := args.resolve(run)
	if err != nil {
		return err
	}
	var top *os.File
	var st *syscall.Stat_t
	err = space.do(func() error {
		p, err := space.pin(where, 0)
		if err != nil {
			return err
		}
		defer p.close()
		top, st, err = space.reopenAny(p, where)
		return err
	})
	if err != nil {
		return err
	}
	defer top.Close()
	if err := s.reply(fields{"ok": true}); err != nil {
		return err
	}
	chunks := bufio.NewWriterSize(&chunkWriter{s}, archiveChunk)
	out := &packer{space: space, tar: tar.NewWriter(chunks)}
	if st.Mode&syscall.S_IFMT == syscall.S_IFDIR {
		err = out.addDir(top, "", 1)
	} else {
		err = out.addFile(top, baseName(top.Name()), st)
	}
	if err == nil {
		err = out.tar.Close()
	}
	if err == nil {
		err = chunks.Flush()
	}
	if err != nil {
		return space.explain(where, err)
	}
	return s.send("done", fields{"ok": true}, nil)
}

func (s *fileSpace) reopenAny(p *pinned, path string) (*os.File, *syscall.Stat_t, error) {
	st := &syscall.Stat_t{}
	if err := syscall.Fstat(p.fd, st); err != nil {
		return nil, nil, s.explain(path, err)
	}
	flags := syscall.O_RDONLY
	if st.Mode&syscall.S_IFMT == syscall.S_IFDIR {
		flags |= syscall.O_DIRECTORY
	}
	return s.reopen(p, flags, path)
}

// A chunkWriter sends what it is given as chunk messages.
type chunkWriter struct{ stream *stream }

func (c *chunkWriter) Write(p []byte) (int, error) {
	if err := c.stream.send("chunk", nil, p); err != nil {
		return 0, err
	}
	return len(p), nil
}

// A packer writes files as they are when it comes to them. Devices, fifos and
// sockets are left out, and a comment in their place says so: a global pax
// header, which every reader of tars passes over.
type packer struct {
	space *fileSpace
	tar   *tar.Writer
}

func (p *packer) addDir(dir *os.File, prefix string, depth int) error {
	for {
		var names []string
		err := p.space.do(func() (err error) {
			names, err = dir.Readdirnames(1024)
			return err
		})
		for _, name := range names {
			if err := p.add(dir, name, prefix+name, depth); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (p *packer) add(dir *os.File, name, path string, depth int) error {
	var st *syscall.Stat_t
	var link string
	var file *os.File
	err := p.space.do(func() (err error) {
		if st, err = statAt(int(dir.Fd()), name); err != nil {
			return err
		}
		switch st.Mode & syscall.S_IFMT {
		case syscall.S_IFLNK:
			link, err = readlinkAt(int(dir.Fd()), name)
		case syscall.S_IFREG:
			file, st, err = openRegularAt(int(dir.Fd()), name)
		case syscall.S_IFDIR:
			fd, openErr := openDirAt(int(dir.Fd()), name)
			if err = openErr; err == nil {
				file = os.NewFile(uintptr(fd), name)
			}
		}
		return err
	})
	if err == syscall.ENOENT {
		return nil // removed since the directory was read
	}
	if err != nil {
		return p.space.explain(path, err)
	}
	if file != nil {
		defer file.Close()
	}
	switch st.Mode & syscall.S_IFMT {
	case syscall.S_IFLNK:
		return p.tar.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: path, Linkname: link, Mode: 0o777, ModTime: modTime(st)})
	case syscall.S_IFREG:
		return p.addFile(file, path, st)
	case syscall.S_IFDIR:
		if depth >= maxDepth {
			return invalid("directories are nested deeper than %d: %s", maxDepth, path)
		}
		if err := p.tar.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: path + "/", Mode: int64(st.Mode & 0o777), ModTime: modTime(st)}); err != nil {
			return err
		}
		return p.addDir(file, path+"/", depth+1)
	}
	return p.leaveOut(path, st)
}

func (p *packer) leaveOut(path string, st *syscall.Stat_t) error {
	kind := "device"
	switch st.Mode & syscall.S_IFMT {
	case syscall.S_IFSOCK:
		kind = "socket"
	case syscall.S_IFIFO:
		kind = "pipe"
	}
	comment := map[string]string{"comment": "left out: " + kind + " " + text(path)}
	return p.tar.WriteHeader(&tar.Header{Typeflag: tar.TypeXGlobalHeader, Name: "left-out", PAXRecords: comment})
}

func (p *packer) addFile(file *os.File, path string, st *syscall.Stat_t) error {
	header := &tar.Header{Typeflag: tar.TypeReg, Name: path, Size: st.Size, Mode: int64(st.Mode & 0o777), ModTime: modTime(st)}
	if err := p.tar.WriteHeader(header); err != nil {
		return err
	}
	n, err := io.Copy(p.tar, io.LimitReader(file, st.Size))
	if err != nil || n == st.Size {
		return err
	}
	// The file shrank since its size was promised: what is missing is zeros.
	_, err = io.CopyN(p.tar, zeros{}, st.Size-n)
	return err
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 0
	}
	return len(p), nil
}

func modTime(st *syscall.Stat_t) time.Time { return time.Unix(st.Mtim.Sec, 0) }
