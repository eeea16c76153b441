package files

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"path"
	"regexp"
	"syscall"

	"sandglass/runner/internal/sys"
	"sandglass/runner/internal/wire"
)

const (
	defaultMatches = 1000
	maxMatches     = 10_000
	maxPattern     = 1024
	maxSearchLine  = 1 << 20 // searched part of a line
	shownLine      = 512     // sent part of a line
	binaryProbe    = 8192    // a file with a NUL in this many first bytes is binary
)

// A match is a file, or a line of one.
type match struct {
	Path       string `json:"path"`
	PathBase64 string `json:"path_base64,omitempty"`
	Line       int    `json:"line,omitempty"`
	Text       string `json:"text,omitempty"`
}

// A search matches names, and lines of the files with matching names.
type search struct {
	space  *Space
	top    *os.File
	path   string
	name   string
	text   *regexp.Regexp
	found  wire.Pages
	isGone func() bool // tells whether the client has closed
	lines  *bufio.Reader
}

func (r *requests) search(q *wire.Request) (wire.Fields, []byte, error) {
	s, err := r.openSearch(q)
	if err != nil {
		return nil, nil, err
	}
	defer s.top.Close()
	s.isGone = q.IsGone
	if err := s.run(); err != nil {
		return nil, nil, err
	}
	return wire.Fields{"truncated": s.found.Truncated}, s.found.Page(), nil
}

func (r *requests) streamSearch(to *wire.Stream, q *wire.Request) error {
	s, err := r.openSearch(q)
	if err != nil {
		return err
	}
	defer s.top.Close()
	if err := to.Reply(wire.Fields{"ok": true}); err != nil {
		return err
	}
	s.found.Stream, s.isGone = to, to.IsGone
	if err := s.run(); err != nil {
		return err
	}
	return s.found.Finish()
}

func (r *requests) openSearch(q *wire.Request) (*search, error) {
	args := struct {
		Target
		Name       string `json:"name"`
		Text       string `json:"text"`
		Regex      bool   `json:"regex"`
		IgnoreCase bool   `json:"ignore_case"`
		MaxMatches *int   `json:"max_matches"`
	}{}
	if err := q.Decode(&args); err != nil {
		return nil, err
	}
	if args.Path == "" && args.PathBase64 == "" {
		args.Path = "."
	}
	limit := defaultMatches
	if args.MaxMatches != nil {
		limit = *args.MaxMatches
	}
	if limit < 1 || limit > maxMatches {
		return nil, wire.Invalid("max_matches must be 1 to %d", maxMatches)
	}
	space, where, err := args.Resolve(r.cfg)
	if err != nil {
		return nil, err
	}
	s := &search{space: space, name: args.Name, found: wire.Pages{Limit: limit}}
	if err := s.compile(args.Text, args.Regex, args.IgnoreCase); err != nil {
		return nil, err
	}
	err = space.Do(func() (err error) {
		s.top, s.path, err = space.openDir(where)
		return err
	})
	return s, err
}

func (s *search) compile(text string, isRegex, ignoreCase bool) error {
	if s.name == "" && text == "" {
		return wire.Invalid("name or text is needed")
	}
	if _, err := path.Match(s.name, ""); err != nil || len(s.name) > maxPattern || len(text) > maxPattern {
		return wire.Invalid("name is not a pattern, or a pattern is longer than %d bytes", maxPattern)
	}
	if text == "" {
		return nil
	}
	if !isRegex {
		text = regexp.QuoteMeta(text)
	}
	if ignoreCase {
		text = "(?i)" + text
	}
	compiled, err := regexp.Compile(text)
	if err != nil {
		return wire.Invalid("text is not a regular expression: %v", err)
	}
	s.text = compiled
	s.lines = bufio.NewReaderSize(nil, 64<<10)
	return nil
}

func (s *search) run() error {
	err := s.dir(s.top, s.path, 1)
	if errors.Is(err, wire.ErrFull) {
		return nil
	}
	return s.space.Explain(s.path, err)
}

func (s *search) dir(dir *os.File, at string, depth int) error {
	var names []string
	var more bool
	err := s.space.Do(func() (err error) {
		names, more, err = sortedNames(dir, maxEntries)
		return err
	})
	if err != nil {
		return err
	}
	s.found.Truncated = s.found.Truncated || more
	for _, name := range names {
		if s.isGone() {
			s.found.Truncated = true
			return wire.ErrFull
		}
		if err := s.entry(dir, name, join(at, name), depth); err != nil {
			return err
		}
	}
	return nil
}

func (s *search) entry(dir *os.File, name, at string, depth int) error {
	var file *os.File
	var st *syscall.Stat_t
	fits := s.fits(name)
	err := s.space.Do(func() (err error) {
		if st, err = sys.StatAt(int(dir.Fd()), name); err != nil {
			return err
		}
		file, err = s.open(dir, name, st, fits)
		return err
	})
	if err = skippable(err); err != nil || st == nil {
		return err
	}
	if file != nil {
		defer file.Close()
	}
	if fits && s.text == nil {
		if err := s.found.Add(&match{Path: at, PathBase64: wire.ExactBase64(at)}); err != nil {
			return err
		}
	}
	switch {
	case file == nil:
		return nil
	case st.Mode&syscall.S_IFMT == syscall.S_IFREG:
		return s.file(file, at)
	case depth >= maxDepth:
		s.found.Truncated = true
		return nil
	}
	return s.dir(file, at, depth+1)
}

// open opens a directory, or a file to be searched. Other entries have only a name.
func (s *search) open(dir *os.File, name string, st *syscall.Stat_t, fits bool) (*os.File, error) {
	switch st.Mode & syscall.S_IFMT {
	case syscall.S_IFDIR:
		fd, err := sys.OpenDirAt(int(dir.Fd()), name)
		if err != nil {
			return nil, err
		}
		return os.NewFile(uintptr(fd), name), nil
	case syscall.S_IFREG:
		if !fits || s.text == nil {
			return nil, nil
		}
		file, _, err := OpenRegularAt(int(dir.Fd()), name)
		return file, err
	}
	return nil, nil
}

func (s *search) fits(name string) bool {
	if s.name == "" {
		return true
	}
	ok, err := path.Match(s.name, name)
	return ok && err == nil
}

// file searches the lines of a text file.
func (s *search) file(file *os.File, at string) error {
	s.lines.Reset(file)
	head, _ := s.lines.Peek(binaryProbe)
	if bytes.IndexByte(head, 0) >= 0 {
		return nil
	}
	for number := 1; ; number++ {
		line, err := s.line()
		if err != nil && err != io.EOF {
			return nil // unreadable: continue with the next file
		}
		if len(line) > 0 {
			if where := s.text.FindIndex(line); where != nil {
				if err := s.found.Add(&match{at, wire.ExactBase64(at), number, string(excerpt(line, where[0]))}); err != nil {
					return err
				}
			}
		}
		if err == io.EOF {
			return nil
		}
		if number%4096 == 0 && s.isGone() {
			return wire.ErrFull
		}
	}
}

// line returns the next line without its end, cut at maxSearchLine. It is valid until the next call.
func (s *search) line() ([]byte, error) {
	part, err := s.lines.ReadSlice('\n')
	if err != bufio.ErrBufferFull {
		return bytes.TrimRight(part, "\r\n"), err
	}
	long := append([]byte(nil), part...)
	for err == bufio.ErrBufferFull {
		part, err = s.lines.ReadSlice('\n')
		if len(long) < maxSearchLine {
			long = append(long, part...)
		}
		if s.isGone() {
			return nil, wire.ErrFull
		}
	}
	return bytes.TrimRight(long, "\r\n"), err
}

// excerpt is the part of a line that is sent: its start, or the surroundings of a later match.
func excerpt(line []byte, at int) []byte {
	if len(line) <= shownLine {
		return line
	}
	from := 0
	if at > shownLine/2 {
		from = at - shownLine/2
	}
	to := from + shownLine
	if to > len(line) {
		to = len(line)
	}
	return line[from:to]
}
