package main

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
)

// FuzzRequests: whatever a client sends after its hello, the runner answers or closes, and does not break.
func FuzzRequests(f *testing.F) {
	addGoldens(f)
	f.Add([]byte(`{"id":"1","type":"ping","bytes":9}` + "\nabc"))
	f.Add([]byte(`{"id":"1","type":"process.get","pid":-1}` + "\n{}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		run := &runner{cfg: &config{}, processes: processes{byPID: map[int]*process{}}}
		in := newWireReader(bytes.NewReader(data))
		for {
			q, err := readRequest(in)
			if err != nil {
				return
			}
			if len(q.id) > 64 || q.size < 0 {
				t.Fatalf("request out of bounds: %+v", q)
			}
			if q.kind == "ping" || q.kind == "process.get" || q.kind == "process.list" {
				run.answer(handlers[q.kind], q, &wireWriter{w: io.Discard})
			}
		}
	})
}

// FuzzMux: whatever frames arrive, the carrier ends in order and no stream holds more than its credit.
func FuzzMux(f *testing.F) {
	addGoldens(f)
	f.Add(append(frame{muxOpen, 1, nil}.encode(), frame{muxData, 1, []byte("x")}.encode()...))
	f.Fuzz(func(t *testing.T, data []byte) {
		w := discard{}
		serveMux(bufio.NewReader(bytes.NewReader(data)), w, func(c carrier, in *wireReader, out *wireWriter) {
			s := c.(*muxStream)
			for {
				line, err := in.line()
				if err != nil {
					return
				}
				s.m.mu.Lock()
				held := len(s.in)
				s.m.mu.Unlock()
				if held > muxInitialCredit || len(line) > maxLineBytes {
					t.Errorf("%d bytes held", held)
				}
				out.message("echo", "", nil, line)
			}
		})
	})
}

func FuzzHello(f *testing.F) {
	addGoldens(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		run := &runner{cfg: &config{Token: "0123456789abcdef"}}
		said, err := run.greet(newWireReader(bytes.NewReader(data)), &wireWriter{w: io.Discard})
		if err == nil && said.Token != run.cfg.Token {
			t.Errorf("accepted %+v", said)
		}
	})
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }
func (discard) Close() error                { return nil }

func addGoldens(f *testing.F) {
	files, err := filepath.Glob("testdata/*.bin")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
}

func newSocket(t *testing.T, file *os.File) net.Conn {
	t.Helper()
	conn, err := net.FileConn(file)
	if err != nil {
		t.Fatal(err)
	}
	file.Close()
	t.Cleanup(func() { conn.Close() })
	return conn
}
