package server

import (
	"bytes"
	"io"
	"net"
	"os"
	"testing"

	"sandglass/runner/internal/config"
	"sandglass/runner/internal/runnertest"
	"sandglass/runner/internal/wire"
)

// FuzzRequests: whatever a client sends after its hello, the runner answers or closes and does not panic.
func FuzzRequests(f *testing.F) {
	runnertest.AddGoldens(f)
	f.Add([]byte(`{"id":"1","type":"ping","bytes":9}` + "\nabc"))
	f.Add([]byte(`{"id":"1","type":"process.get","pid":-1}` + "\n{}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		srv, err := New(&config.Config{})
		if err != nil {
			t.Fatal(err)
		}
		in := wire.NewReader(bytes.NewReader(data))
		for {
			q, err := wire.ReadRequest(in)
			if err != nil {
				return
			}
			if len(q.ID) > 64 || q.Size < 0 {
				t.Fatalf("request out of bounds: %+v", q)
			}
			if q.Kind == "ping" || q.Kind == "process.get" || q.Kind == "process.list" {
				wire.Answer(srv.endpoint.table.handlers[q.Kind], q, wire.NewWriter(io.Discard))
			}
		}
	})
}

func FuzzHello(f *testing.F) {
	runnertest.AddGoldens(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		e := &endpoint{token: "0123456789abcdef"}
		said, err := e.handshake(wire.NewReader(bytes.NewReader(data)), wire.NewWriter(io.Discard))
		if err == nil && said.Token != e.token {
			t.Errorf("accepted %+v", said)
		}
	})
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
