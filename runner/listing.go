package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io"
	"os"
	"sort"
	"syscall"
	"unicode/utf8"
)

const (
	defaultEntries = 10_000
	maxEntries     = 100_000
	maxDepth       = 256      // of a recursive listing or search; what is deeper is left out
	maxListBytes   = 48 << 20 // of a JSON array behind a reply
)

// An entry is a file as clients see it. Links are shown, not followed.
type entry struct {
	Name         string `json:"name"`
	NameBase64   string `json:"name_base64,omitempty"`
	Path         string `json:"path"`
	PathBase64   string `json:"path_base64,omitempty"`
	Type         string `json:"type"`
	Size         int64  `json:"size"`
	Mode         string `json:"mode"`
	UID          uint32 `json:"uid"`
	GID          uint32 `json:"gid"`
	ModifiedAt   int64  `json:"modified_at_ms"`
	Target       string `json:"target,omitempty"`
	TargetBase64 string `json:"target_base64,omitempty"`
}

func newEntry(dir int, name, path string, st *syscall.Stat_t) *entry {
	e := &entry{Name: name, NameBase64: exact(name), Path: path, PathBase64: exact(path), Type: typeOf(st), Size: st.Size,
		Mode: octal(st.Mode), UID: st.Uid, GID: st.Gid, ModifiedAt: modifiedAt(st)}
	if e.Type == "symlink" {
		// A link that is gone again by now is shown without its target.
		target, _ := readlinkAt(dir, name)
		e.Target, e.TargetBase64 = target, exact(target)
	}
	return e
}

func typeOf(st *syscall.Stat_t) string {
	switch st.Mode & syscall.S_IFMT {
	case syscall.S_IFREG:
		return "file"
	case syscall.S_IFDIR:
		return "directory"
	case syscall.S_IFLNK:
		return "symlink"
	}
	return "other"
}

// exact is the base64 of what JSON text cannot carry, else empty.
func exact(text string) string {
	if utf8.ValidString(text) {
		return ""
	}
	return base64.StdEncoding.EncodeToString([]byte(text))
}

func statFile(run *runner, q *request) (fields, []byte, error) {
	args := &target{}
	if err := q.decode(args); err != nil {
		return nil, nil, err
	}
	space, path, err := args.resolve(run)
	if err != nil {
		return nil, nil, err
	}
	var found *entry
	err = space.do(func() error {
		p, err := space.pin(trimSlashes(path), syscall.O_NOFOLLOW)
		if err != nil {
			return err
		}
		defer p.close()
		st := &syscall.Stat_t{}
		if err := syscall.Fstat(p.fd, st); err != nil {
			return space.explain(path, err)
		}
		found = newEntry(p.fd, baseName(p.path), p.path, st)
		if found.Type == "symlink" {
			target, err := readlinkAt(p.fd, "")
			found.Target, found.TargetBase64 = target, exact(target)
			return err
		}
		return nil
	})
	return fields{"entry": found}, nil, err
}

func listFiles(run *runner, q *request) (fields, []byte, error) {
	args := struct {
		target
		Recursive  bool `json:"recursive"`
		MaxEntries *int `json:"max_entries"`
	}{}
	if err := q.decode(&args); err != nil {
		return nil, nil, err
	}
	limit := defaultEntries
	if args.MaxEntries != nil {
		limit = *args.MaxEntries
	}
	if limit < 1 || limit > maxEntries {
		return nil, nil, invalid("max_entries must be 1 to %d", maxEntries)
	}
	if args.Path == "" && args.PathBase64 == "" {
		args.Path = "."
	}
	space, path, err := args.resolve(run)
	if err != nil {
		return nil, nil, err
	}
	list := &jsonList{limit: limit}
	var top string
	err = space.do(func() error {
		dir, real, err := space.openDir(path)
		if err != nil {
			return err
		}
		defer dir.Close()
		top = real
		return space.explain(path, list.addDir(dir, real, args.Recursive, 1))
	})
	if err != nil {
		return nil, nil, err
	}
	return withPath(fields{"truncated": list.truncated}, "path", top), list.bytes(), nil
}

// openDir opens a directory for reading and says where it is.
func (s *fileSpace) openDir(path string) (*os.File, string, error) {
	p, err := s.pin(path, 0)
	if err != nil {
		return nil, "", err
	}
	defer p.close()
	dir, _, err := s.reopen(p, syscall.O_RDONLY|syscall.O_DIRECTORY, path)
	return dir, p.path, err
}

// addDir adds what is in dir, in the order of names, each directory followed by what is in it.
func (l *jsonList) addDir(dir *os.File, path string, recursive bool, depth int) error {
	names, more, err := sortedNames(dir, l.limit-l.count)
	if err != nil {
		return err
	}
	for _, name := range names {
		st, err := statAt(int(dir.Fd()), name)
		if err == syscall.ENOENT {
			continue // removed since the directory was read
		}
		if err != nil {
			return err
		}
		if !l.add(newEntry(int(dir.Fd()), name, join(path, name), st)) {
			return nil
		}
		if !recursive || st.Mode&syscall.S_IFMT != syscall.S_IFDIR {
			continue
		}
		if depth >= maxDepth {
			l.truncated = true
			continue
		}
		if err := l.descend(dir, name, join(path, name), depth); err != nil {
			return err
		}
	}
	l.truncated = l.truncated || more
	return nil
}

func (l *jsonList) descend(dir *os.File, name, path string, depth int) error {
	fd, err := openDirAt(int(dir.Fd()), name)
	if err != nil {
		return skippable(err)
	}
	sub := os.NewFile(uintptr(fd), name)
	defer sub.Close()
	return l.addDir(sub, path, true, depth+1)
}

// skippable passes over what a walk cannot enter: gone, replaced, forbidden, or another mount.
func skippable(err error) error {
	switch err {
	case syscall.ENOENT, syscall.ENOTDIR, syscall.EACCES, syscall.ELOOP, syscall.EXDEV:
		return nil
	}
	return err
}

// sortedNames reads at most limit names; more says that there were others.
func sortedNames(dir *os.File, limit int) (names []string, more bool, err error) {
	for len(names) <= limit {
		batch, err := dir.Readdirnames(1024)
		names = append(names, batch...)
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, false, err
		}
	}
	if more = len(names) > limit; more {
		names = names[:limit]
	}
	sort.Strings(names)
	return names, more, nil
}

// A jsonList is a JSON array that stops growing at a number of items and at a size.
type jsonList struct {
	limit     int
	count     int
	truncated bool
	buf       bytes.Buffer
}

func (l *jsonList) add(item any) bool {
	text, err := json.Marshal(item)
	if err != nil || l.count >= l.limit || l.buf.Len()+len(text) > maxListBytes {
		l.truncated = true
		return false
	}
	if l.count > 0 {
		l.buf.WriteByte(',')
	} else {
		l.buf.WriteByte('[')
	}
	l.buf.Write(text)
	l.count++
	return true
}

func (l *jsonList) bytes() []byte {
	if l.count == 0 {
		return []byte("[]")
	}
	l.buf.WriteByte(']')
	return l.buf.Bytes()
}
