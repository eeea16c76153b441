package files

import (
	"io"
	"os"
	"sort"
	"syscall"

	"sandglass/runner/internal/sys"
	"sandglass/runner/internal/wire"
)

// An Entry describes a file to clients. Links are described, not followed.
type Entry struct {
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

func newEntry(dir int, name, path string, st *syscall.Stat_t) *Entry {
	e := &Entry{Name: name, NameBase64: wire.ExactBase64(name), Path: path, PathBase64: wire.ExactBase64(path), Type: typeOf(st), Size: st.Size,
		Mode: octal(st.Mode), UID: st.Uid, GID: st.Gid, ModifiedAt: modifiedAt(st)}
	if e.Type == "symlink" {
		// The link may be gone by now: its target is then left out.
		target, _ := sys.ReadlinkAt(dir, name)
		e.Target, e.TargetBase64 = target, wire.ExactBase64(target)
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

func (r *requests) stat(q *wire.Request) (wire.Fields, []byte, error) {
	args := &Target{}
	if err := q.Decode(args); err != nil {
		return nil, nil, err
	}
	space, path, err := args.Resolve(r.cfg)
	if err != nil {
		return nil, nil, err
	}
	var found *Entry
	err = space.Do(func() error {
		p, err := space.Pin(TrimSlashes(path), syscall.O_NOFOLLOW)
		if err != nil {
			return err
		}
		defer p.Close()
		st := &syscall.Stat_t{}
		if err := syscall.Fstat(p.FD, st); err != nil {
			return space.Explain(path, err)
		}
		found = newEntry(p.FD, BaseName(p.path), p.path, st)
		if found.Type == "symlink" {
			target, err := sys.ReadlinkAt(p.FD, "")
			found.Target, found.TargetBase64 = target, wire.ExactBase64(target)
			return err
		}
		return nil
	})
	return wire.Fields{"entry": found}, nil, err
}

// openDir opens a directory for reading and returns its real path.
func (s *Space) openDir(path string) (*os.File, string, error) {
	p, err := s.Pin(path, 0)
	if err != nil {
		return nil, "", err
	}
	defer p.Close()
	dir, _, err := s.Reopen(p, syscall.O_RDONLY|syscall.O_DIRECTORY, path)
	return dir, p.path, err
}

// skippable returns nil for errors of entries that a walk skips: removed, replaced, forbidden, or on another mount.
func skippable(err error) error {
	switch err {
	case syscall.ENOENT, syscall.ENOTDIR, syscall.EACCES, syscall.ELOOP, syscall.EXDEV:
		return nil
	}
	return err
}

// sortedNames reads at most limit names. more tells whether there are others.
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
