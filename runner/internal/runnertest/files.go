package runnertest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"sandglass/runner/internal/account"
	"sandglass/runner/internal/config"
	"sandglass/runner/internal/wire"
)

const Secret = "outside: never to be read"

// Files answers file requests whose one root is <top>/workspace. Beside it is a folder that no request may touch.
type Files struct {
	*testing.T
	Config   *config.Config
	Handlers map[string]wire.Handler
	streams  map[string]wire.StreamHandler
	Top      string
	Work     string
	Outside  string
}

// MemoryFolder returns a folder on a filesystem in memory, or any other folder if there is none.
func MemoryFolder(t *testing.T) string {
	t.Helper()
	top, err := os.MkdirTemp("/dev/shm", "files")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(top) })
	return top
}

// OpenFiles creates the fixture in a folder. The handlers answer its requests.
func OpenFiles(t *testing.T, folder string, handlers func(*config.Config) map[string]wire.Handler, streams func(*config.Config) map[string]wire.StreamHandler) *Files {
	t.Helper()
	top, err := filepath.EvalSymlinks(folder)
	if err != nil {
		t.Fatal(err)
	}
	f := &Files{T: t, Top: top, Work: top + "/workspace", Outside: top + "/outside"}
	for _, dir := range []string{f.Work, f.Outside} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	f.Put(f.Outside+"/secret", Secret)
	f.Config = &config.Config{Token: strings.Repeat("t", 16), Workdir: f.Work, Home: f.Work, FileRoots: []string{f.Work}}
	f.Handlers, f.streams = handlers(f.Config), streams(f.Config)
	return f
}

func (f *Files) Put(path, content string) {
	f.Helper()
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		f.Fatal(err)
	}
}

func (f *Files) Must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

// Call passes one request directly to its handler.
func (f *Files) Call(kind string, args wire.Fields, body []byte) (wire.Fields, []byte, error) {
	f.Helper()
	raw, err := json.Marshal(args)
	f.Must(err)
	q := &wire.Request{ID: "1", Kind: kind, Raw: raw, HasBody: body != nil, Size: int64(len(body)), Body: bytes.NewReader(body)}
	return f.Handlers[kind](q)
}

func (f *Files) OK(kind string, args wire.Fields, body []byte) (wire.Fields, []byte) {
	f.Helper()
	reply, out, err := f.Call(kind, args, body)
	if err != nil {
		f.Fatalf("%s %v: %v", kind, args, err)
	}
	return reply, out
}

func (f *Files) Fails(code, kind string, args wire.Fields, body []byte) {
	f.Helper()
	_, _, err := f.Call(kind, args, body)
	if got := CodeName(err); got != code {
		f.Errorf("%s %v: got %s (%v), want %s", kind, args, got, err, code)
	}
}

func CodeName(err error) string {
	var known *wire.Error
	if errors.As(err, &known) {
		return known.Code
	}
	if err != nil {
		return "no code"
	}
	return "no error"
}

// Untouched fails if anything outside has changed.
func (f *Files) Untouched() {
	f.Helper()
	names, err := os.ReadDir(f.Outside)
	f.Must(err)
	content, err := os.ReadFile(f.Outside + "/secret")
	if err != nil || string(content) != Secret || len(names) != 1 {
		f.Fatalf("what lies outside was changed: %q, %v, %v", content, names, err)
	}
}

// A FileClient is the client of one stream.
type FileClient struct {
	*Files
	Conn net.Conn
	In   *wire.Reader
	Out  *wire.Writer
}

func (f *Files) Stream(kind string, args wire.Fields) *FileClient {
	f.Helper()
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	f.Must(err)
	var ends [2]net.Conn
	for i, fd := range pair {
		file := os.NewFile(uintptr(fd), "pair")
		ends[i], err = net.FileConn(file)
		file.Close()
		f.Must(err)
	}
	c := &FileClient{f, ends[0], wire.NewReader(ends[0]), wire.NewWriter(ends[0])}
	raw, err := json.Marshal(args)
	f.Must(err)
	served := make(chan struct{})
	go func() {
		defer close(served)
		defer ends[1].Close()
		s := &wire.Stream{ID: "1", Kind: kind, In: wire.NewReader(ends[1]), Out: wire.NewWriter(ends[1]), Conn: ends[1].(wire.Conn)}
		wire.ServeStream(f.streams[kind], s, &wire.Request{ID: "1", Kind: kind, Raw: raw})
	}()
	f.Cleanup(func() {
		ends[0].Close()
		<-served
	})
	ends[0].SetDeadline(time.Now().Add(60 * time.Second))
	return c
}

// Next reads one message with its body.
func (c *FileClient) Next() (wire.Fields, []byte) {
	c.Helper()
	line, err := c.In.Line()
	c.Must(err)
	m := wire.Fields{}
	c.Must(json.Unmarshal(line, &m))
	size, _ := m["bytes"].(float64)
	body := make([]byte, int(size))
	_, err = readFull(c.In.Body(int64(size)), body)
	c.Must(err)
	return m, body
}

func readFull(r interface{ Read([]byte) (int, error) }, p []byte) (int, error) {
	done := 0
	for done < len(p) {
		n, err := r.Read(p[done:])
		done += n
		if err != nil && done < len(p) {
			return done, err
		}
	}
	return done, nil
}

// Upload sends content in chunks and returns the last message.
func (c *FileClient) Upload(content []byte, size int) wire.Fields {
	c.Helper()
	if m, _ := c.Next(); m["ok"] != true {
		return m
	}
	go func() {
		for rest := content; len(rest) > 0; {
			n := size
			if n > len(rest) {
				n = len(rest)
			}
			if c.Out.Message("chunk", "", nil, rest[:n]) != nil {
				return
			}
			rest = rest[n:]
		}
		c.Out.Message("end", "", nil, nil)
	}()
	m, _ := c.Next()
	return m
}

// AsSandbox makes requests run as an unprivileged user who owns the workspace.
func (f *Files) AsSandbox() *Files {
	f.Helper()
	if os.Geteuid() != 0 {
		f.Skip("changing to another user needs root")
	}
	f.Config.User = &account.User{Name: "sandbox", UID: 54321, GID: 54321}
	// The parent folders belong to root and may be inaccessible to others.
	for dir := f.Top; dir != "/"; dir = filepath.Dir(dir) {
		if info, err := os.Stat(dir); err == nil && strings.Contains(dir, "Test") && info.Mode().Perm()&0o005 != 5 {
			f.Must(os.Chmod(dir, 0o755))
		}
	}
	f.Must(os.Chown(f.Work, 54321, 54321))
	return f
}

// Follow reads changes until the wanted one, and fails if the deadline passes first.
func (c *FileClient) Follow(want string) {
	c.Helper()
	c.Conn.SetDeadline(time.Now().Add(10 * time.Second))
	seen := []string{}
	for {
		line, err := c.In.Line()
		if err != nil {
			c.Fatalf("waiting for %q: %v; seen %v", want, err, seen)
		}
		event := strings.ReplaceAll(ChangeText(c, line), c.Work, "")
		if event == want {
			return
		}
		seen = append(seen, event)
	}
}

func ChangeText(c *FileClient, line []byte) string {
	m := wire.Fields{}
	c.Must((&wire.Message{Raw: line}).Decode(&m))
	if from, ok := m["from"]; ok {
		return fmt.Sprintf("%v %v from %v", m["event"], m["path"], from)
	}
	return fmt.Sprintf("%v %v", m["event"], m["path"])
}

// Download reads an archive.
func (c *FileClient) Download() []byte {
	c.Helper()
	var all []byte
	for {
		m, body := c.Next()
		all = append(all, body...)
		switch m["type"] {
		case "error":
			c.Fatal(m)
		case "done":
			return all
		}
	}
}
