package runnertest

import (
	"encoding/binary"
	"io"
	"net"
	"testing"
	"time"

	"sandglass/runner/internal/mux"
	"sandglass/runner/internal/wire"
)

// A Mux is the client's side of a carrier. The test sends and receives single frames.
type Mux struct {
	T      *testing.T
	Conn   net.Conn
	In     *wire.Reader
	number uint32
}

type Frame struct {
	Kind    byte
	Number  uint32
	Payload []byte
}

func NewFrame(kind byte, number uint32, payload []byte) Frame { return Frame{kind, number, payload} }

func (f Frame) Encode() []byte { return mux.EncodeFrame(f.Kind, f.Number, f.Payload) }

func Credit(number, n uint32) Frame {
	return Frame{mux.Credit, number, binary.BigEndian.AppendUint32(nil, n)}
}

// openMux sends a hello on a connection and reads the ready line.
func openMux(t *testing.T, conn net.Conn) *Mux {
	t.Helper()
	conn.SetDeadline(time.Now().Add(Patience))
	c := &Client{t: t, Conn: conn, In: wire.NewReader(conn)}
	c.Send(wire.Fields{"type": "hello", "version": 1, "token": Token, "mux": true}, nil)
	if ready, _ := c.Receive(); ready["type"] != "ready" {
		t.Fatalf("no ready line but %v", ready)
	}
	return &Mux{T: t, Conn: conn, In: c.In}
}

func (s *Sandbox) Mux() *Mux { return openMux(s.T, s.DialRaw().Conn) }

func (m *Mux) Write(frames ...Frame) {
	m.T.Helper()
	var raw []byte
	for _, f := range frames {
		raw = append(raw, f.Encode()...)
	}
	if _, err := m.Conn.Write(raw); err != nil {
		m.T.Fatal(err)
	}
}

// Read returns the next frame; false at the end of the carrier.
func (m *Mux) Read() (Frame, bool) {
	header := make([]byte, mux.HeaderBytes)
	if _, err := io.ReadFull(m.In.Buf, header); err != nil {
		return Frame{}, false
	}
	f := Frame{header[0], binary.BigEndian.Uint32(header[1:]), make([]byte, binary.BigEndian.Uint32(header[5:]))}
	if _, err := io.ReadFull(m.In.Buf, f.Payload); err != nil {
		m.T.Fatal(err)
	}
	return f, true
}

// A MuxConn is one stream as a connection, for tests that use one stream at a time.
type MuxConn struct {
	net.Conn
	m       *Mux
	Number  uint32
	pending []byte
}

func (m *Mux) Open() *Client {
	m.number += 2
	number := m.number - 1
	m.Write(NewFrame(mux.Open, number, nil))
	conn := &MuxConn{Conn: m.Conn, m: m, Number: number}
	return &Client{t: m.T, Conn: conn, In: wire.NewReader(conn)}
}

func (c *MuxConn) Write(p []byte) (int, error) {
	c.m.Write(NewFrame(mux.Data, c.Number, p))
	return len(p), nil
}

func (c *MuxConn) Read(p []byte) (int, error) {
	for len(c.pending) == 0 {
		f, ok := c.m.Read()
		if !ok || f.Number == c.Number && f.Kind == mux.End {
			return 0, io.EOF
		}
		if f.Number == c.Number && f.Kind == mux.Reset {
			return 0, wire.ErrReset
		}
		if f.Number == c.Number && f.Kind == mux.Data {
			c.pending = f.Payload
			c.m.Write(Credit(c.Number, uint32(len(f.Payload))))
		}
	}
	n := copy(p, c.pending)
	c.pending = c.pending[n:]
	return n, nil
}

func (c *MuxConn) CloseWrite() error {
	c.m.Write(NewFrame(mux.End, c.Number, nil))
	return nil
}

// Reset resets the stream.
func (c *MuxConn) Reset() { c.m.Write(NewFrame(mux.Reset, c.Number, nil)) }
