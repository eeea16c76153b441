package files

import (
	"encoding/base64"
	"io"
	"os"
	"strconv"
	"syscall"

	"sandglass/runner/internal/config"
	"sandglass/runner/internal/wire"
)

const (
	defaultReadBytes = 1 << 20
	// Inline content must fit a line as base64.
	maxInlineBytes = 5 << 20
)

// requests answers the requests about files.
type requests struct{ cfg *config.Config }

// Handlers answer the requests about files.
func Handlers(cfg *config.Config) map[string]wire.Handler {
	r := &requests{cfg}
	return map[string]wire.Handler{
		"read":      r.read,
		"write":     r.write,
		"fs.list":   r.list,
		"fs.stat":   r.stat,
		"fs.mkdir":  r.makeDir,
		"fs.move":   r.move,
		"fs.remove": r.remove,
		"fs.search": r.search,
	}
}

func Streams(cfg *config.Config) map[string]wire.StreamHandler {
	r := &requests{cfg}
	return map[string]wire.StreamHandler{
		"file.put":  r.put,
		"file.get":  r.get,
		"fs.list":   r.streamList,
		"fs.search": r.streamSearch,
		"fs.watch":  r.watch,
	}
}

// A Target has the fields of every file request: the path and the user.
type Target struct {
	Path       string `json:"path"`
	PathBase64 string `json:"path_base64"`
	User       string `json:"user"`
}

// Resolve returns the path of the request and the space of its user.
func (t *Target) Resolve(cfg *config.Config) (*Space, string, error) {
	path, err := requestPath(t.Path, t.PathBase64)
	if err != nil {
		return nil, "", err
	}
	space, err := newSpace(cfg, t.User)
	return space, path, err
}

func (r *requests) read(q *wire.Request) (wire.Fields, []byte, error) {
	args := struct {
		Target
		Offset   int64  `json:"offset"`
		MaxBytes *int64 `json:"max_bytes"`
		Inline   bool   `json:"inline"`
	}{}
	if err := q.Decode(&args); err != nil {
		return nil, nil, err
	}
	limit := int64(defaultReadBytes)
	if args.MaxBytes != nil {
		limit = *args.MaxBytes
	}
	if args.Offset < 0 || limit < 0 || limit > wire.MaxBodyBytes {
		return nil, nil, wire.Invalid("offset must not be negative, max_bytes must be 0 to %d", wire.MaxBodyBytes)
	}
	if args.Inline && limit > maxInlineBytes {
		limit = maxInlineBytes
	}
	space, path, err := args.Resolve(r.cfg)
	if err != nil {
		return nil, nil, err
	}
	file, _, err := openRegular(space, path)
	if err != nil {
		return nil, nil, err
	}
	defer file.Close()
	return readRange(file, args.Offset, limit, args.Inline)
}

func readRange(file *os.File, offset, limit int64, inline bool) (wire.Fields, []byte, error) {
	info, err := file.Stat()
	if err != nil {
		return nil, nil, err
	}
	size := info.Size()
	length := size - offset
	if length < 0 {
		length = 0
	}
	truncated := length > limit
	if truncated {
		length = limit
	}
	content := make([]byte, length)
	n, err := file.ReadAt(content, offset)
	if err != nil && err != io.EOF {
		return nil, nil, err
	}
	reply := withPath(wire.Fields{"size": size, "truncated": truncated}, "path", file.Name())
	if inline {
		reply["content_base64"] = base64.StdEncoding.EncodeToString(content[:n])
		return reply, nil, nil
	}
	return reply, content[:n], nil
}

func (r *requests) get(s *wire.Stream, q *wire.Request) error {
	args := struct {
		Target
		Offset int64  `json:"offset"`
		Length *int64 `json:"length"`
	}{}
	if err := q.Decode(&args); err != nil {
		return err
	}
	if args.Offset < 0 || args.Length != nil && *args.Length < 0 {
		return wire.Invalid("offset and length must not be negative")
	}
	space, path, err := args.Resolve(r.cfg)
	if err != nil {
		return err
	}
	file, st, err := openRegular(space, path)
	if err != nil {
		return err
	}
	defer file.Close()
	if args.Offset > st.Size {
		return wire.NewError(wire.CodeRangeUnmet, "range starts past the end of the file", wire.Fields{"size": st.Size})
	}
	length := st.Size - args.Offset
	if args.Length != nil && *args.Length < length {
		length = *args.Length
	}
	if _, err := file.Seek(args.Offset, io.SeekStart); err != nil {
		return err
	}
	reply := withPath(wire.Fields{"size": st.Size, "mode": octal(st.Mode), "modified_at_ms": modifiedAt(st)}, "path", file.Name())
	return s.ReplyWithBody(reply, length, file)
}

// openRegular opens a regular file for reading.
func openRegular(space *Space, path string) (file *os.File, st *syscall.Stat_t, err error) {
	err = space.Do(func() error {
		p, err := space.Pin(path, 0)
		if err != nil {
			return err
		}
		defer p.Close()
		file, st, err = space.Reopen(p, syscall.O_RDONLY, path)
		return err
	})
	return file, st, err
}

// withPath adds a path to a reply, and its base64 if it is not UTF-8.
func withPath(f wire.Fields, name, path string) wire.Fields {
	f[name] = path
	wire.AddExact(f, name, path)
	return f
}

func octal(mode uint32) string { return "0" + strconv.FormatUint(uint64(mode&0o7777), 8) }

func parseMode(text string) (uint32, error) {
	mode, err := strconv.ParseUint(text, 8, 32)
	if err != nil || mode > 0o777 {
		return 0, wire.Invalid("mode must be octal, like 644")
	}
	return uint32(mode), nil
}

// maxTime is the last millisecond of the year 9999. Later times have no ISO 8601 form of the usual length.
const maxTime = 253_402_300_799_999

// modifiedAt is the modification time in milliseconds, limited to the times that clients can show.
func modifiedAt(st *syscall.Stat_t) int64 {
	switch seconds := st.Mtim.Sec; {
	case seconds < 0:
		return 0
	case seconds > maxTime/1000:
		return maxTime
	default:
		return seconds*1000 + st.Mtim.Nsec/1e6
	}
}
