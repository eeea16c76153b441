package main

import (
	"encoding/base64"
	"io"
	"os"
	"sort"
	"syscall"
	"unicode/utf8"
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
