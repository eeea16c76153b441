package files

import (
	"errors"
	"os"
	"syscall"

	"sandglass/runner/internal/sys"
	"sandglass/runner/internal/wire"
)

const (
	defaultEntries = 10_000
	maxEntries     = 250_000
	maxDepth       = 256 // of a recursive listing or search; deeper entries are left out
	statsAtOnce    = 256
)

// A listing sends the entries of a directory to a client. It waits for the client outside of Space.Do.
type listing struct {
	space     *Space
	top       *os.File
	path      string
	recursive bool
	pages     wire.Pages
}

func (r *requests) list(q *wire.Request) (wire.Fields, []byte, error) {
	l, err := r.openListing(q)
	if err != nil {
		return nil, nil, err
	}
	defer l.top.Close()
	if err := l.walk(); err != nil {
		return nil, nil, err
	}
	return withPath(wire.Fields{"truncated": l.pages.Truncated}, "path", l.path), l.pages.Page(), nil
}

func (r *requests) streamList(s *wire.Stream, q *wire.Request) error {
	l, err := r.openListing(q)
	if err != nil {
		return err
	}
	defer l.top.Close()
	if err := s.Reply(withPath(wire.Fields{}, "path", l.path)); err != nil {
		return err
	}
	l.pages.Stream = s
	if err := l.walk(); err != nil {
		return err
	}
	return l.pages.Finish()
}

func (r *requests) openListing(q *wire.Request) (*listing, error) {
	args := struct {
		Target
		Recursive  bool `json:"recursive"`
		MaxEntries *int `json:"max_entries"`
	}{}
	if err := q.Decode(&args); err != nil {
		return nil, err
	}
	limit := defaultEntries
	if args.MaxEntries != nil {
		limit = *args.MaxEntries
	}
	if limit < 1 || limit > maxEntries {
		return nil, wire.Invalid("max_entries must be 1 to %d", maxEntries)
	}
	if args.Path == "" && args.PathBase64 == "" {
		args.Path = "."
	}
	space, path, err := args.Resolve(r.cfg)
	if err != nil {
		return nil, err
	}
	l := &listing{space: space, recursive: args.Recursive, pages: wire.Pages{Limit: limit}}
	err = space.Do(func() (err error) {
		l.top, l.path, err = space.openDir(path)
		return err
	})
	return l, err
}

func (l *listing) walk() error {
	err := l.dir(l.top, l.path, 1)
	if errors.Is(err, wire.ErrFull) {
		return nil
	}
	return l.space.Explain(l.path, err)
}

// dir adds the entries of a directory, sorted by name, each directory followed by its own entries.
func (l *listing) dir(dir *os.File, path string, depth int) error {
	var names []string
	var more bool
	err := l.space.Do(func() (err error) {
		names, more, err = sortedNames(dir, l.pages.Limit-l.pages.Count)
		return err
	})
	if err != nil {
		return err
	}
	l.pages.Truncated = l.pages.Truncated || more
	for len(names) > 0 {
		n := len(names)
		if n > statsAtOnce {
			n = statsAtOnce
		}
		found, err := l.describe(dir, path, names[:n])
		if err != nil {
			return err
		}
		names = names[n:]
		for _, e := range found {
			if err := l.pages.Add(e); err != nil {
				return err
			}
			if !l.recursive || e.Type != "directory" {
				continue
			}
			if err := l.descend(dir, e, depth); err != nil {
				return err
			}
		}
	}
	return nil
}

// describe returns the entries for some of the names in a directory.
func (l *listing) describe(dir *os.File, path string, names []string) (found []*Entry, err error) {
	err = l.space.Do(func() error {
		for _, name := range names {
			st, err := sys.StatAt(int(dir.Fd()), name)
			if err == syscall.ENOENT {
				continue // removed since the directory was read
			}
			if err != nil {
				return err
			}
			found = append(found, newEntry(int(dir.Fd()), name, join(path, name), st))
		}
		return nil
	})
	return found, err
}

func (l *listing) descend(dir *os.File, e *Entry, depth int) error {
	if depth >= maxDepth {
		l.pages.Truncated = true
		return nil
	}
	var sub *os.File
	err := l.space.Do(func() error {
		fd, err := sys.OpenDirAt(int(dir.Fd()), e.Name)
		if err == nil {
			sub = os.NewFile(uintptr(fd), e.Name)
		}
		return err
	})
	if err != nil {
		return skippable(err)
	}
	defer sub.Close()
	return l.dir(sub, e.Path, depth+1)
}
