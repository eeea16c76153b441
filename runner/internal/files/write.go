package files

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"io"
	"os"
	"strings"
	"syscall"

	"sandglass/runner/internal/sys"
	"sandglass/runner/internal/wire"
)

// temporaryPrefix starts the names of files that this runner is writing. They are listed, but not reported by watch.
const temporaryPrefix = ".sandglass-"

type writeRequest struct {
	Target
	Mode        string `json:"mode"`
	MakeParents *bool  `json:"make_parents"`
	Sync        bool   `json:"sync"`
}

func (r *requests) write(q *wire.Request) (wire.Fields, []byte, error) {
	args := struct {
		writeRequest
		ContentBase64 *string `json:"content_base64"`
	}{}
	if err := q.Decode(&args); err != nil {
		return nil, nil, err
	}
	if q.HasBody == (args.ContentBase64 != nil) {
		return nil, nil, wire.Invalid("exactly one of content_base64 and bytes is needed")
	}
	content := q.Body
	if args.ContentBase64 != nil {
		decoded, err := base64.StdEncoding.DecodeString(*args.ContentBase64)
		if err != nil {
			return nil, nil, wire.Invalid("content_base64 is not base64")
		}
		content = bytes.NewReader(decoded)
	}
	file, err := r.createAtomic(&args.writeRequest)
	if err != nil {
		return nil, nil, err
	}
	defer file.discard()
	reply, err := file.writeFrom(content)
	return reply, nil, err
}

// put receives a file in chunks. The client is sent an error at once and may still be sending, so its chunks are read
// until it closes.
func (r *requests) put(s *wire.Stream, q *wire.Request) error {
	args := &writeRequest{}
	if err := q.Decode(args); err != nil {
		return err
	}
	file, err := r.createAtomic(args)
	if err != nil {
		return err
	}
	defer file.discard()
	if err := s.Reply(wire.Fields{"ok": true}); err != nil {
		return err
	}
	chunks := &wire.ChunkReader{Stream: s}
	reply, err := file.writeFrom(chunks)
	if err != nil {
		file.discard()
		return chunks.Fail(err)
	}
	return s.Send("done", reply, nil)
}

// An atomicFile gets its name when it is complete.
type atomicFile struct {
	*os.File
	space     *Space
	dir       *Pinned
	temporary string
	name      string
	path      string // as in the request
	mode      uint32
	sync      bool
	isDone    bool
}

func (r *requests) createAtomic(args *writeRequest) (file *atomicFile, err error) {
	space, path, err := args.Resolve(r.cfg)
	if err != nil {
		return nil, err
	}
	mode := uint32(0)
	if args.Mode != "" {
		if mode, err = parseMode(args.Mode); err != nil {
			return nil, err
		}
	}
	makeParents := args.MakeParents == nil || *args.MakeParents
	err = space.Do(func() error {
		file, err = space.createTemporary(path, makeParents)
		return err
	})
	if err != nil {
		return nil, err
	}
	if args.Mode != "" {
		file.mode = mode
	}
	file.sync = args.Sync
	return file, nil
}

func (s *Space) createTemporary(path string, makeParents bool) (*atomicFile, error) {
	dir, name, mode, err := s.writeTarget(path, makeParents)
	if err != nil {
		return nil, err
	}
	temporary, err := TemporaryName()
	if err != nil {
		dir.Close()
		return nil, err
	}
	fd, err := sys.OpenAt(dir.FD, temporary, syscall.O_WRONLY|syscall.O_CREAT|syscall.O_EXCL, 0o600)
	if err != nil {
		dir.Close()
		return nil, s.Explain(path, err)
	}
	return &atomicFile{File: os.NewFile(uintptr(fd), temporary), space: s, dir: dir,
		temporary: temporary, name: name, path: path, mode: mode}, nil
}

// writeTarget returns the directory, the name and the mode for a file to be written. A link is followed if its target
// is inside the roots.
func (s *Space) writeTarget(path string, makeParents bool) (*Pinned, string, uint32, error) {
	pinDir := s.pinParent
	if makeParents {
		pinDir = s.PinOrMakeParent
	}
	dir, name, err := pinDir(path)
	if err != nil {
		return nil, "", 0, err
	}
	st, err := sys.StatAt(dir.FD, name)
	if err == nil && st.Mode&syscall.S_IFMT == syscall.S_IFLNK {
		dir.Close()
		if dir, name, err = s.linkTarget(path); err != nil {
			return nil, "", 0, err
		}
		st, err = sys.StatAt(dir.FD, name)
	}
	mode := uint32(0o644)
	switch {
	case err == syscall.ENOENT:
		return dir, name, mode, nil
	case err != nil:
	case st.Mode&syscall.S_IFMT == syscall.S_IFDIR:
		err = syscall.EISDIR
	case st.Mode&syscall.S_IFMT != syscall.S_IFREG:
		err = notAFile(path)
	default:
		return dir, name, st.Mode & 0o777, nil
	}
	dir.Close()
	return nil, "", 0, s.Explain(path, err)
}

func (s *Space) linkTarget(path string) (*Pinned, string, error) {
	target, err := s.Pin(path, 0)
	if err != nil {
		return nil, "", err
	}
	defer target.Close()
	return s.pinParent(target.path)
}

// writeFrom writes the content and renames the file into place.
func (f *atomicFile) writeFrom(content io.Reader) (wire.Fields, error) {
	size, err := io.CopyBuffer(struct{ io.Writer }{f.File}, content, make([]byte, wire.CopyBuffer))
	if err == nil {
		err = f.commit()
	}
	if err != nil {
		return nil, f.space.Explain(f.path, err)
	}
	return withPath(wire.Fields{"ok": true, "size": size}, "path", f.dir.path+"/"+f.name), nil
}

func (f *atomicFile) commit() error {
	fd := int(f.Fd())
	if f.sync {
		if err := syscall.Fsync(fd); err != nil {
			return err
		}
	}
	return f.space.Do(func() error {
		if err := syscall.Fchmod(fd, f.mode); err != nil {
			return err
		}
		if err := sys.RenameAt(f.dir.FD, f.temporary, f.dir.FD, f.name, 0); err != nil {
			return err
		}
		f.isDone = true
		if !f.sync {
			return nil
		}
		dir, _, err := f.space.Reopen(f.dir, syscall.O_RDONLY|syscall.O_DIRECTORY, f.path)
		if err != nil {
			return err
		}
		defer dir.Close()
		return dir.Sync()
	})
}

// discard closes the file and removes it if it was not committed. It is idempotent.
func (f *atomicFile) discard() {
	if f.File.Close() != nil {
		return
	}
	if !f.isDone {
		f.space.Do(func() error { return sys.UnlinkAt(f.dir.FD, f.temporary, 0) })
	}
	f.dir.Close()
}

func TemporaryName() (string, error) {
	var id [12]byte
	if _, err := rand.Read(id[:]); err != nil {
		return "", err
	}
	return temporaryPrefix + hex.EncodeToString(id[:]), nil
}

func isTemporary(name string) bool { return strings.HasPrefix(name, temporaryPrefix) }
