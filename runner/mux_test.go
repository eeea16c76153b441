package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// A testMux is the client's side of a carrier, with every frame in the test's hands.
type testMux struct {
	t      *testing.T
	conn   net.Conn
	in     *wireReader
	number uint32
}

type frame struct {
	kind    byte
	number  uint32
	payload []byte
}

func (f frame) encode() []byte { return encodeFrame(f.kind, f.number, f.payload) }

func credit(number, n uint32) frame {
	return frame{muxCredit, number, binary.BigEndian.AppendUint32(nil, n)}
}

// openTestMux says hello on a carrier.
func openTestMux(t *testing.T, conn net.Conn) *testMux {
	t.Helper()
	conn.SetDeadline(time.Now().Add(patience))
	c := &client{t: t, conn: conn, in: newWireReader(conn)}
	c.send(fields{"type": "hello", "version": 1, "token": testToken, "mux": true}, nil)
	if ready, _ := c.receive(); ready["type"] != "ready" {
		t.Fatalf("no ready line but %v", ready)
	}
	return &testMux{t: t, conn: conn, in: c.in}
}

func (s *sandbox) mux() *testMux { return openTestMux(s.t, s.dialRaw().conn) }

func (m *testMux) write(frames ...frame) {
	m.t.Helper()
	var raw []byte
	for _, f := range frames {
		raw = append(raw, f.encode()...)
	}
	if _, err := m.conn.Write(raw); err != nil {
		m.t.Fatal(err)
	}
}

// read gives the next frame; false at the end of the carrier.
func (m *testMux) read() (frame, bool) {
	header := make([]byte, muxHeader)
	if _, err := io.ReadFull(m.in.buf, header); err != nil {
		return frame{}, false
	}
	f := frame{header[0], binary.BigEndian.Uint32(header[1:]), make([]byte, binary.BigEndian.Uint32(header[5:]))}
	if _, err := io.ReadFull(m.in.buf, f.payload); err != nil {
		m.t.Fatal(err)
	}
	return f, true
}

// A muxConn is one stream as a connection, for tests that use one stream at a time.
type muxConn struct {
	net.Conn
	m       *testMux
	number  uint32
	pending []byte
}

func (m *testMux) open() *client {
	m.number += 2
	number := m.number - 1
	m.write(frame{muxOpen, number, nil})
	conn := &muxConn{Conn: m.conn, m: m, number: number}
	return &client{t: m.t, conn: conn, in: newWireReader(conn)}
}

func (c *muxConn) Write(p []byte) (int, error) {
	c.m.write(frame{muxData, c.number, p})
	return len(p), nil
}

func (c *muxConn) Read(p []byte) (int, error) {
	for len(c.pending) == 0 {
		f, ok := c.m.read()
		if !ok || f.number == c.number && (f.kind == muxEnd || f.kind == muxReset) {
			return 0, io.EOF
		}
		if f.number == c.number && f.kind == muxData {
			c.pending = f.payload
			c.m.write(credit(c.number, uint32(len(f.payload))))
		}
	}
	n := copy(p, c.pending)
	c.pending = c.pending[n:]
	return n, nil
}

func TestAStreamOfACarrierNeedsNoHello(t *testing.T) {
	m := startRunner(t, nil).mux()
	for i := 0; i < 3; i++ {
		c := m.open()
		c.send(fields{"id": "1", "type": "exec", "cmd": fmt.Sprintf("echo %d", i)}, nil)
		if f, body := c.receive(); string(body) != fmt.Sprintf("%d\r\n", i) {
			t.Errorf("got %v %q", f, body)
		}
		m.write(frame{muxEnd, c.conn.(*muxConn).number, nil})
	}
}

func TestAStreamTakesWhatItsCreditAllows(t *testing.T) {
	m := startRunner(t, nil).mux()
	c := m.open()
	c.send(fields{"id": "1", "type": "exec", "cmd": "seq 500000", "stream": true}, nil)
	received := 0
	for received < muxInitialCredit {
		f, ok := m.read()
		if !ok {
			t.Fatal("the carrier ended")
		}
		if f.kind == muxData {
			received += len(f.payload)
		}
	}
	if received != muxInitialCredit {
		t.Errorf("%d bytes came on %d of credit", received, muxInitialCredit)
	}
	// The stream waits; another one is served meanwhile.
	other := m.open()
	other.send(fields{"id": "2", "type": "ping"}, nil)
	if f, _ := other.receive(); f["ok"] != true {
		t.Errorf("got %v", f)
	}
	m.write(credit(1, 10))
	// They may come in several frames: a frame ends where a write of the runner does.
	for more := 0; more != 10; {
		f, _ := m.read()
		if more += len(f.payload); f.kind != muxData || f.number != 1 || more > 10 {
			t.Fatalf("%d bytes after 10 bytes of credit: %+v", more, f)
		}
	}
	m.write(frame{muxReset, 1, nil})
	again := m.open()
	again.send(fields{"id": "3", "type": "ping"}, nil)
	if f, _ := again.receive(); f["ok"] != true {
		t.Errorf("after a reset: %v", f)
	}
}

func TestCreditComesBackAsTheRunnerReads(t *testing.T) {
	m := startRunner(t, nil).mux()
	c := m.open()
	c.send(fields{"id": "1", "type": "process.start", "argv": []string{"cat"}, "stdin": true}, nil)
	started, _ := c.receive()
	body := bytes.Repeat([]byte("x"), 1<<20)
	head := fmt.Sprintf(`{"id":"2","type":"process.stdin","pid":%v,"close":true,"bytes":%d}`+"\n", started["process"].(map[string]any)["pid"], len(body))
	m.write(frame{muxData, 1, []byte(head)})
	left, granted := len(body), muxInitialCredit/2 // the requests have used some of the rest
	for left > 0 {
		for granted == 0 {
			f, ok := m.read()
			if !ok {
				t.Fatal("the carrier ended")
			}
			if f.kind == muxCredit {
				granted += int(binary.BigEndian.Uint32(f.payload))
			}
		}
		n := min(min(left, granted), maxMuxPayload)
		m.write(frame{muxData, 1, body[:n]})
		left, granted = left-n, granted-n
	}
	if f, _ := c.receive(); f["ok"] != true {
		t.Errorf("got %v", f)
	}
}

func TestBadFramesEndTheCarrier(t *testing.T) {
	s := startRunner(t, nil)
	big := frame{muxData, 1, make([]byte, maxMuxPayload)}
	for _, c := range []struct {
		title  string
		frames []frame
		raw    []byte
	}{
		{"an unknown kind", []frame{{9, 1, nil}}, nil},
		{"an even stream number", []frame{{muxOpen, 2, nil}}, nil},
		{"a number used before", []frame{{muxOpen, 3, nil}, {muxOpen, 1, nil}}, nil},
		{"OPEN with a payload", []frame{{muxOpen, 1, []byte("x")}}, nil},
		{"DATA without one", []frame{{muxOpen, 1, nil}, {muxData, 1, nil}}, nil},
		{"DATA for a stream never opened", []frame{{muxData, 7, []byte("x")}}, nil},
		{"CREDIT for a stream never opened", []frame{credit(7, 1)}, nil},
		{"CREDIT of a wrong length", []frame{{muxOpen, 1, nil}, {muxCredit, 1, []byte("xx")}}, nil},
		{"more than 16 MiB of credit", []frame{{muxOpen, 1, nil}, credit(1, 16<<20)}, nil},
		{"END twice", []frame{{muxOpen, 1, nil}, {muxData, 1, []byte(`{"id":"1","type":"exec","cmd":"sleep 1"}` + "\n")}, {muxEnd, 1, nil}, {muxEnd, 1, nil}}, nil},
		{"DATA after END", []frame{{muxOpen, 1, nil}, {muxData, 1, []byte(`{"id":"1","type":"exec","cmd":"sleep 1"}` + "\n")}, {muxEnd, 1, nil}, {muxData, 1, []byte("x")}}, nil},
		{"DATA beyond the credit", []frame{
			{muxOpen, 1, nil}, {muxData, 1, []byte(`{"id":"1","type":"shell.attach","name":"m"}` + "\n" + `{"type":"stdin","bytes":99999999}` + "\n")}, big, big, big, big, big, big, big, big, big}, nil},
		{"a length beyond the bound", nil, []byte{muxData, 0, 0, 0, 1, 0, 1, 0, 1, 0, 0, 0, 0}},
		{"a payload that was changed", nil, append(frame{muxOpen, 1, nil}.encode(), bytes.Replace(frame{muxData, 1, []byte("abc")}.encode(), []byte("b"), []byte("x"), 1)...)},
	} {
		t.Run(c.title, func(t *testing.T) {
			m := s.mux()
			raw := c.raw
			for _, f := range c.frames {
				raw = append(raw, f.encode()...)
			}
			go m.conn.Write(raw)
			for {
				f, ok := m.read()
				if !ok {
					return
				}
				if f.kind == muxReset {
					t.Fatalf("a reset in place of the end: %+v", f)
				}
			}
		})
	}
}

func TestNothingOfADamagedPayloadIsPassedOn(t *testing.T) {
	m := &mux{w: io.Discard}
	s := &muxStream{m: m, number: 1, window: muxInitialCredit, changed: sync.NewCond(&m.mu)}
	err := s.receive(3, crc32.ChecksumIEEE([]byte("abc")), bufio.NewReader(strings.NewReader("ab\x00")))
	if !errors.Is(err, errDamaged) || len(s.in) != 0 {
		t.Errorf("passed on %q, %v", s.in, err)
	}
}

func TestFramesForAStreamThatIsGoneAreDropped(t *testing.T) {
	m := startRunner(t, nil).mux()
	m.open()
	m.write(frame{muxReset, 1, nil}, frame{muxData, 1, []byte("late")}, credit(1, 5), frame{muxEnd, 1, nil}, frame{muxReset, 1, nil})
	c := m.open()
	c.send(fields{"id": "1", "type": "ping"}, nil)
	if f, _ := c.receive(); f["ok"] != true {
		t.Errorf("got %v", f)
	}
}

func TestTooManyStreamsAreReset(t *testing.T) {
	m := startRunner(t, nil).mux()
	go func() {
		for i := 0; i < maxMuxStreams+1; i++ {
			m.write(frame{muxOpen, uint32(2*i + 1), nil})
		}
	}()
	f, ok := m.read()
	if !ok || f.kind != muxReset || f.number != 2*maxMuxStreams+1 {
		t.Errorf("got %+v", f)
	}
	m.write(frame{muxReset, 1, nil}, frame{muxOpen, 2*maxMuxStreams + 3, nil}, frame{muxData, 2*maxMuxStreams + 3, []byte(`{"id":"1","type":"ping"}` + "\n")})
	if f, ok = m.read(); !ok || f.kind != muxData {
		t.Errorf("after a stream was freed: %+v", f)
	}
}

func TestASlowStreamDoesNotBlockTheOthers(t *testing.T) {
	m := startRunner(t, nil).mux()
	slow := m.open()
	slow.send(fields{"id": "1", "type": "process.start", "argv": []string{"yes"}, "hold_output": true}, nil)
	started, _ := slow.receive()
	reader := m.open()
	reader.send(fields{"id": "1", "type": "process.attach", "pid": started["process"].(map[string]any)["pid"]}, nil)
	for got := 0; got < muxInitialCredit; {
		f, ok := m.read()
		if !ok {
			t.Fatal("the carrier ended")
		}
		if f.number == 3 && f.kind == muxData {
			got += len(f.payload)
		}
	}
	for i := 0; i < 20; i++ {
		c := m.open()
		c.send(fields{"id": "1", "type": "exec", "cmd": "echo quick"}, nil)
		if f, body := c.receive(); string(body) != "quick\r\n" {
			t.Fatalf("got %v %q", f, body)
		}
	}
}
