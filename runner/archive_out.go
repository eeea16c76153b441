package main

import (
	"archive/tar"
	"bufio"
	"os"
	"syscall"
)

const (
	archiveChunk = 256 << 10
	// Of a name in an archive. It may be longer than a path that a system call takes.
	maxArchiveName = 16 << 10
)

// getArchive sends a directory's contents, with names relative to it, or one file under its own name.
//
// What cannot be read ends it with an error before the first byte, unless the client asked to skip such entries: once
// the archive has begun, an error can only break it off.
func getArchive(run *runner, s *stream, q *request) error {
	args := struct {
		target
		OnUnreadable string `json:"on_unreadable"`
	}{}
	if err := q.decode(&args); err != nil {
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
	chunks := bufio.NewWriterSize(&chunkWriter{s}, archiveChunk)
	out := &packer{space: space, tar: tar.NewWriter(chunks), skips: args.OnUnreadable == "skip"}
	if !out.skips {
		rehearsal := &packer{space: space}
		if err := rehearsal.addTop(top, st); err != nil {
			return space.explain(where, err)
		}
	}
	if err := s.reply(fields{"ok": true}); err != nil {
		return err
	}
	err = out.addTop(top, st)
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
