package main

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"io"
	"os"
	"strings"
	"syscall"
)

// Names that start so are half-written files of this runner: listed like any other, but not watched.
const temporaryPrefix = ".sandglass-"

type writeArgs struct {
	target
	Mode        string `json:"mode"`
	MakeParents *bool  `json:"make_parents"`
	Sync        bool   `json:"sync"`
}

func writeFile(run *runner, q *request) (fields, []byte, error) {
	args := struct {
		writeArgs
		ContentBase64 *string `json:"content_base64"`
	}{}
	if err := q.decode(&args); err != nil {
		return nil, nil, err
	}
	if q.hasBody == (args.ContentBase64 != nil) {
		return nil, nil, invalid("exactly one of content_base64 and bytes is needed")
	}
	content := q.body
	if args.ContentBase64 != nil {
		decoded, err := base64.StdEncoding.DecodeString(*args.ContentBase64)
		if err != nil {
			return nil, nil, invalid("content_base64 is not base64")
		}
		content = bytes.NewReader(decoded)
	}
	file, err := createAtomic(run, &args.writeArgs)
	if err != nil {
		return nil, nil, err
	}
	defer file.abandon()
	reply, err := file.fill(content)
	return reply, nil, err
}

// putFile takes a file in chunks. The client hears of a failure at once and may
// still be sending, so what it sends is read until it has noticed.
func putFile(run *runner, s *stream, q *request) error {
	args := &writeArgs{}
	if err := q.decode(args); err != nil {
		return err
	}
	file, err := createAtomic(run, args)
	if err != nil {
		return err
	}
	defer file.abandon()
	if err := s.reply(fields{"ok": true}); err != nil {
		return err
	}
	chunks := &chunkReader{stream: s}
	reply, err := file.fill(chunks)
	if err != nil {
		file.abandon()
		return chunks.fail(err)
	}
	return s.send("done", reply, nil)
}

// An atomicFile is a file that takes its name only when it is complete.
type atomicFile struct {
	*os.File
	space     *fileSpace
	dir       *pinned
	temporary string
	name      string
	path      string // as asked for
	mode      uint32
	sync      bool
	isDone    bool
}

func createAtomic(run *runner, args *writeArgs) (file *atomicFile, err error) {
	space, path, err := args.resolve(run)
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
	err = space.do(func() error {
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

func (s *fileSpace) createTemporary(path string, makeParents bool) (*atomicFile, error) {
	dir, name, mode, err := s.writePlace(path, makeParents)
	if err != nil {
		return nil, err
	}
	temporary, err := temporaryName()
	if err != nil {
		dir.close()
		return nil, err
	}
	fd, err := openAt(dir.fd, temporary, syscall.O_WRONLY|syscall.O_CREAT|syscall.O_EXCL, 0o600)
	if err != nil {
		dir.close()
		return nil, s.explain(path, err)
	}
	return &atomicFile{File: os.NewFile(uintptr(fd), temporary), space: s, dir: dir,
		temporary: temporary, name: name, path: path, mode: mode}, nil
}

// writePlace gives the directory and name that a file is to have, and its mode. A link
// is written through, to where it leads inside the roots.
func (s *fileSpace) writePlace(path string, makeParents bool) (*pinned, string, uint32, error) {
	pinDir := s.pinParent
	if makeParents {
		pinDir = s.pinMade
	}
	dir, name, err := pinDir(path)
	if err != nil {
		return nil, "", 0, err
	}
	st, err := statAt(dir.fd, name)
	if err == nil && st.Mode&syscall.S_IFMT == syscall.S_IFLNK {
		dir.close()
		if dir, name, err = s.linkPlace(path); err != nil {
			return nil, "", 0, err
		}
		st, err = statAt(dir.fd, name)
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
	dir.close()
	return nil, "", 0, s.explain(path, err)
}

func (s *fileSpace) linkPlace(path string) (*pinned, string, error) {
	target, err := s.pin(path, 0)
	if err != nil {
		return nil, "", err
	}
	defer target.close()
	return s.pinParent(target.path)
}

// fill writes the content and gives the file its name.
func (f *atomicFile) fill(content io.Reader) (fields, error) {
	size, err := io.CopyBuffer(struct{ io.Writer }{f.File}, content, make([]byte, copyBuffer))
	if err == nil {
		err = f.commit()
	}
	if err != nil {
		return nil, f.space.explain(f.path, err)
	}
	return withPath(fields{"ok": true, "size": size}, "path", f.dir.path+"/"+f.name), nil
}

func (f *atomicFile) commit() error {
	fd := int(f.Fd())
	if f.sync {
		if err := syscall.Fsync(fd); err != nil {
			return err
		}
	}
	return f.space.do(func() error {
		if err := syscall.Fchmod(fd, f.mode); err != nil {
			return err
		}
		if err := renameAt(f.dir.fd, f.temporary, f.dir.fd, f.name, 0); err != nil {
			return err
		}
		f.isDone = true
		if !f.sync {
			return nil
		}
		dir, _, err := f.space.reopen(f.dir, syscall.O_RDONLY|syscall.O_DIRECTORY, f.path)
		if err != nil {
			return err
		}
		defer dir.Close()
		return dir.Sync()
	})
}

// abandon closes the file and removes what has not got its name. Idempotent.
func (f *atomicFile) abandon() {
	if f.File.Close() != nil {
		return
	}
	if !f.isDone {
		f.space.do(func() error { return unlinkAt(f.dir.fd, f.temporary, 0) })
	}
	f.dir.close()
}

func temporaryName() (string, error) {
	var id [12]byte
	if _, err := rand.Read(id[:]); err != nil {
		return "", err
	}
	return temporaryPrefix + hex.EncodeToString(id[:]), nil
}

func isTemporary(name string) bool { return strings.HasPrefix(name, temporaryPrefix) }
