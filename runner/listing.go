package main

import (
	"errors"
	"os"
	"syscall"
)

const (
	defaultEntries = 10_000
	maxEntries     = 250_000
	maxDepth       = 256 // of a recursive listing or search; what is deeper is left out
	statsAtOnce    = 256
)

// A listing is a directory on its way to a client. What waits for the client happens outside of fileSpace.do.
type listing struct {
	space     *fileSpace
	top       *os.File
	path      string
	recursive bool
	pages     pages
}

func listFiles(run *runner, q *request) (fields, []byte, error) {
	l, err := openListing(run, q)
	if err != nil {
		return nil, nil, err
	}
	defer l.top.Close()
	if err := l.walk(); err != nil {
		return nil, nil, err
	}
	return withPath(fields{"truncated": l.pages.truncated}, "path", l.path), l.pages.one(), nil
}

func streamListing(run *runner, s *stream, q *request) error {
	l, err := openListing(run, q)
	if err != nil {
		return err
	}
	defer l.top.Close()
	if err := s.reply(withPath(fields{}, "path", l.path)); err != nil {
		return err
	}
	l.pages.out = s
	if err := l.walk(); err != nil {
		return err
	}
	return l.pages.finish()
}

func openListing(run *runner, q *request) (*listing, error) {
	args := struct {
		target
		Recursive  bool `json:"recursive"`
		MaxEntries *int `json:"max_entries"`
	}{}
	if err := q.decode(&args); err != nil {
		return nil, err
	}
	limit := defaultEntries
	if args.MaxEntries != nil {
		limit = *args.MaxEntries
	}
	if limit < 1 || limit > maxEntries {
		return nil, invalid("max_entries must be 1 to %d", maxEntries)
	}
	if args.Path == "" && args.PathBase64 == "" {
		args.Path = "."
	}
	space, path, err := args.resolve(run)
	if err != nil {
		return nil, err
	}
	l := &listing{space: space, recursive: args.Recursive, pages: pages{limit: limit}}
	err = space.do(func() (err error) {
		l.top, l.path, err = space.openDir(path)
		return err
	})
	return l, err
}

func (l *listing) walk() error {
	err := l.dir(l.top, l.path, 1)
	if errors.Is(err, errEnough) {
		return nil
	}
	return l.space.explain(l.path, err)
}

// dir adds what is in a directory, in the order of names, each directory followed by what is in it.
func (l *listing) dir(dir *os.File, path string, depth int) error {
	var names []string
	var more bool
	err := l.space.do(func() (err error) {
		names, more, err = sortedNames(dir, l.pages.limit-l.pages.count)
		return err
	})
	if err != nil {
		return err
	}
	l.pages.truncated = l.pages.truncated || more
	for len(names) > 0 {
		n := min(len(names), statsAtOnce)
		found, err := l.describe(dir, path, names[:n])
		if err != nil {
			return err
		}
		names = names[n:]
		for _, e := range found {
			if err := l.pages.add(e); err != nil {
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

// describe looks at some of the names in a directory.
func (l *listing) describe(dir *os.File, path string, names []string) (found []*entry, err error) {
	err = l.space.do(func() error {
		for _, name := range names {
			st, err := statAt(int(dir.Fd()), name)
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

func (l *listing) descend(dir *os.File, e *entry, depth int) error {
	if depth >= maxDepth {
		l.pages.truncated = true
		return nil
	}
	var sub *os.File
	err := l.space.do(func() error {
		fd, err := openDirAt(int(dir.Fd()), e.Name)
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
