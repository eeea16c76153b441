package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

const secret = "outside: never to be read"

// A fileFixture is a runner whose one root is <top>/workspace, beside which lies what must not be touched.
type fileFixture struct {
	*testing.T
	run     *runner
	top     string
	work    string
	outside string
}

func newFileFixture(t *testing.T) *fileFixture {
	t.Helper()
	return newFileFixtureIn(t, t.TempDir())
}

// newMemoryFixture is for tests with very many files: a disk would be what they measure.
func newMemoryFixture(t *testing.T) *fileFixture {
	t.Helper()
	top, err := os.MkdirTemp("/dev/shm", "files")
	if err != nil {
		return newFileFixture(t)
	}
	t.Cleanup(func() { os.RemoveAll(top) })
	return newFileFixtureIn(t, top)
}

func newFileFixtureIn(t *testing.T, folder string) *fileFixture {
	t.Helper()
	top, err := filepath.EvalSymlinks(folder)
	if err != nil {
		t.Fatal(err)
	}
	f := &fileFixture{T: t, top: top, work: top + "/workspace", outside: top + "/outside"}
	for _, dir := range []string{f.work, f.outside} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	f.put(f.outside+"/secret", secret)
	f.run = &runner{cfg: &config{Token: strings.Repeat("t", 16), Workdir: f.work, Home: f.work, FileRoots: []string{f.work}}}
	return f
}

func (f *fileFixture) put(path, content string) {
	f.Helper()
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		f.Fatal(err)
	}
}

func (f *fileFixture) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

// call sends one small request past the wire.
func (f *fileFixture) call(kind string, args fields, body []byte) (fields, []byte, error) {
	f.Helper()
	raw, err := json.Marshal(args)
	f.must(err)
	q := &request{id: "1", kind: kind, raw: raw, hasBody: body != nil, size: int64(len(body)), body: bytes.NewReader(body)}
	return fileHandlers[kind](f.run, q)
}

func (f *fileFixture) ok(kind string, args fields, body []byte) (fields, []byte) {
	f.Helper()
	reply, out, err := f.call(kind, args, body)
	if err != nil {
		f.Fatalf("%s %v: %v", kind, args, err)
	}
	return reply, out
}

func (f *fileFixture) fails(code, kind string, args fields, body []byte) {
	f.Helper()
	_, _, err := f.call(kind, args, body)
	if got := codeOf(err); got != code {
		f.Errorf("%s %v: got %s (%v), want %s", kind, args, got, err, code)
	}
}

func codeOf(err error) string {
	var known *runnerError
	if errors.As(err, &known) {
		return known.code
	}
	if err != nil {
		return "no code"
	}
	return "no error"
}

// untouched fails when anything outside changed.
func (f *fileFixture) untouched() {
	f.Helper()
	names, err := os.ReadDir(f.outside)
	f.must(err)
	content, err := os.ReadFile(f.outside + "/secret")
	if err != nil || string(content) != secret || len(names) != 1 {
		f.Fatalf("what lies outside was changed: %q, %v, %v", content, names, err)
	}
}

// A fileClient has a stream to the fixture's runner.
type fileClient struct {
	*fileFixture
	conn net.Conn
	in   *wireReader
	out  *wireWriter
}

func (f *fileFixture) stream(kind string, args fields) *fileClient {
	f.Helper()
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	f.must(err)
	var ends [2]net.Conn
	for i, fd := range pair {
		file := os.NewFile(uintptr(fd), "pair")
		ends[i], err = net.FileConn(file)
		file.Close()
		f.must(err)
	}
	c := &fileClient{f, ends[0], newWireReader(ends[0]), &wireWriter{w: ends[0]}}
	raw, err := json.Marshal(args)
	f.must(err)
	served := make(chan struct{})
	go func() {
		defer close(served)
		defer ends[1].Close()
		s := &stream{id: "1", kind: kind, in: newWireReader(ends[1]), out: &wireWriter{w: ends[1]}, conn: ends[1].(carrier)}
		f.run.serveStream(fileStreams[kind], s, &request{id: "1", kind: kind, raw: raw})
	}()
	f.Cleanup(func() {
		ends[0].Close()
		<-served
	})
	ends[0].SetDeadline(time.Now().Add(60 * time.Second))
	return c
}

// next reads one message with its body.
func (c *fileClient) next() (fields, []byte) {
	c.Helper()
	line, err := c.in.line()
	c.must(err)
	m := fields{}
	c.must(json.Unmarshal(line, &m))
	size, _ := m["bytes"].(float64)
	body := make([]byte, int(size))
	_, err = readFull(c.in.body(int64(size)), body)
	c.must(err)
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

// upload sends content in chunks and returns the last message.
func (c *fileClient) upload(content []byte, size int) fields {
	c.Helper()
	if m, _ := c.next(); m["ok"] != true {
		return m
	}
	go func() {
		for rest := content; len(rest) > 0; {
			n := size
			if n > len(rest) {
				n = len(rest)
			}
			if c.out.message("chunk", "", nil, rest[:n]) != nil {
				return
			}
			rest = rest[n:]
		}
		c.out.message("end", "", nil, nil)
	}()
	m, _ := c.next()
	return m
}
