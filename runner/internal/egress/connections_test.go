package egress

import (
	"bytes"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"sandglass/runner/internal/wire"
)

func TestATakenConnectionCarriesBytesBothWays(t *testing.T) {
	f := open(t, nil)
	c := f.connect(1)
	program, m := f.connected(c)
	program.Write([]byte("before; "))
	stream := f.take(m["connection"])
	program.Write([]byte("after"))
	program.CloseWrite()
	if got := stream.all(); got != "before; after" {
		t.Errorf("the client got %q", got)
	}
	stream.conn.Write([]byte("answer"))
	stream.conn.CloseWrite()
	if got, err := io.ReadAll(program); string(got) != "answer" || err != nil {
		t.Errorf("the program got %q, %v", got, err)
	}
	f.eventually("the connection is forgotten", func() bool { open, _ := f.numbers(); return open == 0 })
}

func TestTheClientMayEndItsDirectionFirst(t *testing.T) {
	f := open(t, nil)
	c := f.connect(1)
	program, m := f.connected(c)
	stream := f.take(m["connection"])
	stream.conn.Write([]byte("greeting"))
	stream.conn.CloseWrite()
	if got, err := io.ReadAll(program); string(got) != "greeting" || err != nil {
		t.Errorf("the program got %q, %v", got, err)
	}
	program.Write([]byte("still here"))
	program.Close()
	if got := stream.all(); got != "still here" {
		t.Errorf("the client got %q", got)
	}
}

func TestLargeTransfersArriveWhole(t *testing.T) {
	f := open(t, nil)
	c := f.connect(1)
	program, m := f.connected(c)
	stream := f.take(m["connection"])
	content := bytes.Repeat([]byte("0123456789abcdef"), 1<<20)
	var done sync.WaitGroup
	for _, w := range []interface {
		io.Writer
		CloseWrite() error
	}{program, stream.conn} {
		w := w
		done.Add(1)
		go func() {
			defer done.Done()
			w.Write(content)
			w.CloseWrite()
		}()
	}
	received := make(chan []byte)
	go func() {
		got, _ := io.ReadAll(program)
		received <- got
	}()
	if got := stream.all(); got != string(content) {
		t.Errorf("the client got %d bytes", len(got))
	}
	if got := <-received; !bytes.Equal(got, content) {
		t.Errorf("the program got %d bytes", len(got))
	}
	done.Wait()
}

func TestARefusedConnectionIsReset(t *testing.T) {
	f := open(t, nil)
	c := f.connect(1)
	program, m := f.connected(c)
	program.Write([]byte("request"))
	c.send("refuse", wire.Fields{"connection": m["connection"]})
	if err := isReset(program); err != nil {
		t.Error(err)
	}
	if _, reply := f.stream("take", wire.Fields{"connection": m["connection"]}); reply["code"] != wire.CodeInvalidRequest {
		t.Errorf("taken afterwards: %v", reply)
	}

	program, m = f.connected(c)
	stream := f.take(m["connection"])
	stream.conn.Write([]byte("x"))
	program.Read(make([]byte, 1))
	c.send("refuse", wire.Fields{"connection": m["connection"]})
	if err := isReset(program); err != nil {
		t.Errorf("after it was taken: %v", err)
	}
	if got := stream.all(); got != "" {
		t.Errorf("the client got %q", got)
	}
	c.send("refuse", wire.Fields{"connection": 999}) // no error
	f.connected(c)
}

func TestOnlyAWaitingConnectionCanBeTaken(t *testing.T) {
	f := open(t, nil)
	c := f.connect(1)
	_, m := f.connected(c)
	f.take(m["connection"])
	for title, number := range map[string]any{"twice": m["connection"], "unknown": 999, "negative": -1, "text": "1"} {
		if _, reply := f.stream("take", wire.Fields{"connection": number}); reply["code"] != wire.CodeInvalidRequest {
			t.Errorf("%s: %v", title, reply)
		}
	}
}

func TestAProgramThatGoesAwayIsReported(t *testing.T) {
	f := open(t, nil)
	c := f.connect(1)
	for title, leave := range map[string]func(*net.TCPConn){
		"it closes": func(conn *net.TCPConn) { conn.Close() },
		"it resets": func(conn *net.TCPConn) { reset(conn) },
		"it resets after it has sent bytes": func(conn *net.TCPConn) {
			conn.Write([]byte("request"))
			reset(conn)
		},
	} {
		program, m := f.connected(c)
		leave(program)
		if gone := c.expect("closed"); gone["connection"] != m["connection"] {
			t.Errorf("%s: %v", title, gone)
		}
	}
	if open, waiting := f.numbers(); open != 0 || waiting != 0 {
		t.Errorf("%d open, %d waiting", open, waiting)
	}
}

func TestAProgramThatHasSentItsRequestAndEndedItsDirectionWaits(t *testing.T) {
	f := open(t, nil)
	c := f.connect(1)
	program, m := f.connected(c)
	program.Write([]byte("request"))
	program.CloseWrite()
	// Announcements are in order: the program is not gone if the next message is about the second connection.
	f.connected(c)
	stream := f.take(m["connection"])
	if got := stream.all(); got != "request" {
		t.Errorf("the client got %q", got)
	}
}

func TestAProgramThatResetsATakenConnectionEndsTheStream(t *testing.T) {
	f := open(t, nil)
	c := f.connect(1)
	program, m := f.connected(c)
	stream := f.take(m["connection"])
	program.Write([]byte("x"))
	io.ReadFull(stream.in.Buf, make([]byte, 1))
	reset(program)
	if got := stream.all(); got != "" {
		t.Errorf("the client got %q", got)
	}
	f.eventually("the connection is forgotten", func() bool { open, _ := f.numbers(); return open == 0 })
}

func TestAClientThatClosesEndsTheConnection(t *testing.T) {
	f := open(t, nil)
	c := f.connect(1)
	program, m := f.connected(c)
	stream := f.take(m["connection"])
	stream.conn.Write([]byte("last"))
	stream.conn.Close()
	if got, err := io.ReadAll(program); string(got) != "last" || err != nil {
		t.Errorf("the program got %q, %v", got, err)
	}
	f.eventually("the connection is forgotten although the program keeps its end open", func() bool { open, _ := f.numbers(); return open == 0 })

	program, m = f.connected(c)
	stream = f.take(m["connection"])
	program.Write([]byte("unread")) // an end with unread bytes is not in order
	f.eventually("the bytes arrive", func() bool { _, err := stream.in.Buf.Peek(1); return err == nil })
	program.Write([]byte("more"))
	stream.conn.Close()
	if _, err := io.ReadAll(program); err == nil {
		f.eventually("the program cannot write", func() bool { _, err := program.Write([]byte("x")); return err != nil })
	}
}

func TestWaitingConnectionsAreAnnouncedToTheNextControlStream(t *testing.T) {
	f := open(t, nil)
	early := f.program(f.options.Refused.String(), webPort)
	f.eventually("it waits", func() bool { _, waiting := f.numbers(); return waiting == 1 })
	f.program(f.options.Refused.String(), tlsPort)
	f.eventually("both wait", func() bool { _, waiting := f.numbers(); return waiting == 2 })
	first := f.connect(1)
	m := first.expect("connection")
	if m["port"] != float64(webPort) {
		t.Errorf("got %v", m)
	}
	first.expect("connection")
	stream := f.take(m["connection"])

	second := f.connect(1) // replaces the first, and hears of what still waits
	if m := first.next(); m != nil {
		t.Errorf("the first control stream goes on with %v", m)
	}
	if m := second.expect("connection"); m["port"] != float64(tlsPort) {
		t.Errorf("got %v", m)
	}
	second.conn.Close()
	third := f.connect(7)
	third.expect("connection")
	f.configure(third, 8) // announces nothing again
	f.connected(third)

	early.Write([]byte("a taken connection does not need the control stream"))
	early.CloseWrite()
	if got := stream.all(); got == "" {
		t.Error("the client got nothing")
	}
}

func TestAConnectionThatNobodyTakesIsReset(t *testing.T) {
	f := open(t, func(o *Options) { o.TakeTimeout = 50 * time.Millisecond })
	c := f.connect(1)
	program, m := f.connected(c)
	if err := isReset(program); err != nil {
		t.Error(err)
	}
	if gone := c.expect("closed"); gone["connection"] != m["connection"] {
		t.Errorf("got %v", gone)
	}
}

func TestWithoutAControlStreamAConnectionIsResetSooner(t *testing.T) {
	f := open(t, func(o *Options) { o.AbsenceTimeout = 50 * time.Millisecond })
	if err := f.isResetAtOnce(); err != nil {
		t.Errorf("before: %v", err)
	}
	c := f.connect(1)
	program, _ := f.connected(c)
	c.conn.Close()
	if err := isReset(program); err != nil {
		t.Errorf("after: %v", err)
	}
}
