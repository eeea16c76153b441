package archive

import (
	"archive/tar"
	"bufio"
	"os"
	"syscall"

	"sandglass/runner/internal/files"
	"sandglass/runner/internal/wire"
)

const (
	archiveChunk = 256 << 10
	// longest name in an archive; it may be longer than a path that a system call accepts.
	maxArchiveName = 16 << 10
)

// get sends the content of a directory, with names relative to it, or one file under its own name.
//
// Unless the client asked to skip unreadable entries, it checks first that everything can be read: once the archive
// has begun, an error can only truncate it.
func (r *requests) get(s *wire.Stream, q *wire.Request) error {
	args := struct {
		files.Target
		OnUnreadable string `json:"on_unreadable"`
	}{}
	if err := q.Decode(&args); err != nil {
		return err
	}
	space, where, err := args.Resolve(r.cfg)
	if err != nil {
		return err
	}
	var top *os.File
	var st *syscall.Stat_t
	err = space.Do(func() error {
		p, err := space.Pin(where, 0)
		if err != nil {
			return err
		}
		defer p.Close()
		top, st, err = space.ReopenAny(p, where)
		return err
	})
	if err != nil {
		return err
	}
	defer top.Close()
	chunks := bufio.NewWriterSize(&chunkWriter{s}, archiveChunk)
	out := &packer{space: space, tar: tar.NewWriter(chunks), skips: args.OnUnreadable == "skip"}
	if !out.skips {
		dryRun := &packer{space: space}
		if err := dryRun.addTop(top, st); err != nil {
			return space.Explain(where, err)
		}
	}
	if err := s.Reply(wire.Fields{"ok": true}); err != nil {
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
		return space.Explain(where, err)
	}
	return s.Send("done", wire.Fields{"ok": true}, nil)
}

// A chunkWriter sends what is written to it as chunk messages.
type chunkWriter struct{ stream *wire.Stream }

func (c *chunkWriter) Write(p []byte) (int, error) {
	if err := c.stream.Send("chunk", nil, p); err != nil {
		return 0, err
	}
	return len(p), nil
}
