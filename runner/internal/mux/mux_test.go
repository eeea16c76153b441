package mux_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"

	"sandglass/runner/internal/mux"
	"sandglass/runner/internal/runnertest"
	"sandglass/runner/internal/wire"
)

func TestAStreamOfACarrierNeedsNoHello(t *testing.T) {
	m := runnertest.Start(t, nil).Mux()
	for i := 0; i < 3; i++ {
		c := m.Open()
		c.Send(wire.Fields{"id": "1", "type": "exec", "cmd": fmt.Sprintf("echo %d", i)}, nil)
		if f, body := c.Receive(); string(body) != fmt.Sprintf("%d\r\n", i) {
			t.Errorf("got %v %q", f, body)
		}
		m.Write(runnertest.NewFrame(mux.End, c.Conn.(*runnertest.MuxConn).Number, nil))
	}
}

func TestAStreamTakesWhatItsCreditAllows(t *testing.T) {
	m := runnertest.Start(t, nil).Mux()
	c := m.Open()
	c.Send(wire.Fields{"id": "1", "type": "exec", "cmd": "seq 500000", "stream": true}, nil)
	received := 0
	for received < mux.InitialCredit {
		f, ok := m.Read()
		if !ok {
			t.Fatal("the carrier ended")
		}
		if f.Kind == mux.Data {
			received += len(f.Payload)
		}
	}
	if received != mux.InitialCredit {
		t.Errorf("%d bytes came on %d of credit", received, mux.InitialCredit)
	}
	// The stream waits; another one is served meanwhile.
	other := m.Open()
	other.Send(wire.Fields{"id": "2", "type": "ping"}, nil)
	if f, _ := other.Receive(); f["ok"] != true {
		t.Errorf("got %v", f)
	}
	m.Write(runnertest.Credit(1, 10))
	// They may come in several frames, one for each write of the runner.
	for more := 0; more != 10; {
		f, _ := m.Read()
		if more += len(f.Payload); f.Kind != mux.Data || f.Number != 1 || more > 10 {
			t.Fatalf("%d bytes after 10 bytes of credit: %+v", more, f)
		}
	}
	m.Write(runnertest.NewFrame(mux.Reset, 1, nil))
	again := m.Open()
	again.Send(wire.Fields{"id": "3", "type": "ping"}, nil)
	if f, _ := again.Receive(); f["ok"] != true {
		t.Errorf("after a reset: %v", f)
	}
}

func TestCreditComesBackAsTheRunnerReads(t *testing.T) {
	m := runnertest.Start(t, nil).Mux()
	c := m.Open()
	c.Send(wire.Fields{"id": "1", "type": "process.start", "argv": []string{"cat"}, "stdin": true}, nil)
	started, _ := c.Receive()
	body := bytes.Repeat([]byte("x"), 1<<20)
	head := fmt.Sprintf(`{"id":"2","type":"process.stdin","pid":%v,"close":true,"bytes":%d}`+"\n", started["process"].(map[string]any)["pid"], len(body))
	m.Write(runnertest.NewFrame(mux.Data, 1, []byte(head)))
	left, granted := len(body), mux.InitialCredit/2 // the requests have used some of the rest
	for left > 0 {
		for granted == 0 {
			f, ok := m.Read()
			if !ok {
				t.Fatal("the carrier ended")
			}
			if f.Kind == mux.Credit {
				granted += int(binary.BigEndian.Uint32(f.Payload))
			}
		}
		n := left
		for _, most := range []int{granted, mux.MaxPayload} {
			if n > most {
				n = most
			}
		}
		m.Write(runnertest.NewFrame(mux.Data, 1, body[:n]))
		left, granted = left-n, granted-n
	}
	if f, _ := c.Receive(); f["ok"] != true {
		t.Errorf("got %v", f)
	}
}

func TestBadFramesEndTheCarrier(t *testing.T) {
	s := runnertest.Start(t, nil)
	big := runnertest.NewFrame(mux.Data, 1, make([]byte, mux.MaxPayload))
	for _, c := range []struct {
		title  string
		frames []runnertest.Frame
		raw    []byte
	}{
		{"an unknown kind", []runnertest.Frame{runnertest.NewFrame(9, 1, nil)}, nil},
		{"an even stream number", []runnertest.Frame{runnertest.NewFrame(mux.Open, 2, nil)}, nil},
		{"a number used before", []runnertest.Frame{runnertest.NewFrame(mux.Open, 3, nil), runnertest.NewFrame(mux.Open, 1, nil)}, nil},
		{"OPEN with a payload", []runnertest.Frame{runnertest.NewFrame(mux.Open, 1, []byte("x"))}, nil},
		{"DATA without one", []runnertest.Frame{runnertest.NewFrame(mux.Open, 1, nil), runnertest.NewFrame(mux.Data, 1, nil)}, nil},
		{"DATA for a stream never opened", []runnertest.Frame{runnertest.NewFrame(mux.Data, 7, []byte("x"))}, nil},
		{"CREDIT for a stream never opened", []runnertest.Frame{runnertest.Credit(7, 1)}, nil},
		{"CREDIT of a wrong length", []runnertest.Frame{runnertest.NewFrame(mux.Open, 1, nil), runnertest.NewFrame(mux.Credit, 1, []byte("xx"))}, nil},
		{"more than 16 MiB of credit", []runnertest.Frame{runnertest.NewFrame(mux.Open, 1, nil), runnertest.Credit(1, 16<<20)}, nil},
		{"END twice", []runnertest.Frame{runnertest.NewFrame(mux.Open, 1, nil), runnertest.NewFrame(mux.Data, 1, []byte(`{"id":"1","type":"exec","cmd":"sleep 1"}`+"\n")), runnertest.NewFrame(mux.End, 1, nil), runnertest.NewFrame(mux.End, 1, nil)}, nil},
		{"DATA after END", []runnertest.Frame{runnertest.NewFrame(mux.Open, 1, nil), runnertest.NewFrame(mux.Data, 1, []byte(`{"id":"1","type":"exec","cmd":"sleep 1"}`+"\n")), runnertest.NewFrame(mux.End, 1, nil), runnertest.NewFrame(mux.Data, 1, []byte("x"))}, nil},
		{"DATA beyond the credit", []runnertest.Frame{
			runnertest.NewFrame(mux.Open, 1, nil), runnertest.NewFrame(mux.Data, 1, []byte(`{"id":"1","type":"shell.attach","name":"m"}`+"\n"+`{"type":"stdin","bytes":99999999}`+"\n")), big, big, big, big, big, big, big, big, big}, nil},
		{"a length beyond the bound", nil, []byte{mux.Data, 0, 0, 0, 1, 0, 1, 0, 1, 0, 0, 0, 0}},
		{"a payload that was changed", nil, append(runnertest.NewFrame(mux.Open, 1, nil).Encode(), bytes.Replace(runnertest.NewFrame(mux.Data, 1, []byte("abc")).Encode(), []byte("b"), []byte("x"), 1)...)},
	} {
		t.Run(c.title, func(t *testing.T) {
			m := s.Mux()
			raw := c.raw
			for _, f := range c.frames {
				raw = append(raw, f.Encode()...)
			}
			go m.Conn.Write(raw)
			for {
				f, ok := m.Read()
				if !ok {
					return
				}
				if f.Kind == mux.Reset {
					t.Fatalf("a reset in place of the end: %+v", f)
				}
			}
		})
	}
}

func TestFramesForAStreamThatIsGoneAreDropped(t *testing.T) {
	m := runnertest.Start(t, nil).Mux()
	m.Open()
	m.Write(runnertest.NewFrame(mux.Reset, 1, nil), runnertest.NewFrame(mux.Data, 1, []byte("late")), runnertest.Credit(1, 5), runnertest.NewFrame(mux.End, 1, nil), runnertest.NewFrame(mux.Reset, 1, nil))
	c := m.Open()
	c.Send(wire.Fields{"id": "1", "type": "ping"}, nil)
	if f, _ := c.Receive(); f["ok"] != true {
		t.Errorf("got %v", f)
	}
}

func TestTooManyStreamsAreReset(t *testing.T) {
	m := runnertest.Start(t, nil).Mux()
	go func() {
		for i := 0; i < mux.MaxStreams+1; i++ {
			m.Write(runnertest.NewFrame(mux.Open, uint32(2*i+1), nil))
		}
	}()
	f, ok := m.Read()
	if !ok || f.Kind != mux.Reset || f.Number != 2*mux.MaxStreams+1 {
		t.Errorf("got %+v", f)
	}
	m.Write(runnertest.NewFrame(mux.Reset, 1, nil), runnertest.NewFrame(mux.Open, 2*mux.MaxStreams+3, nil), runnertest.NewFrame(mux.Data, 2*mux.MaxStreams+3, []byte(`{"id":"1","type":"ping"}`+"\n")))
	if f, ok = m.Read(); !ok || f.Kind != mux.Data {
		t.Errorf("after a stream was freed: %+v", f)
	}
}

func TestASlowStreamDoesNotBlockTheOthers(t *testing.T) {
	m := runnertest.Start(t, nil).Mux()
	slow := m.Open()
	slow.Send(wire.Fields{"id": "1", "type": "process.start", "argv": []string{"yes"}, "hold_output": true}, nil)
	started, _ := slow.Receive()
	reader := m.Open()
	reader.Send(wire.Fields{"id": "1", "type": "process.attach", "pid": started["process"].(map[string]any)["pid"]}, nil)
	for got := 0; got < mux.InitialCredit; {
		f, ok := m.Read()
		if !ok {
			t.Fatal("the carrier ended")
		}
		if f.Number == 3 && f.Kind == mux.Data {
			got += len(f.Payload)
		}
	}
	for i := 0; i < 20; i++ {
		c := m.Open()
		c.Send(wire.Fields{"id": "1", "type": "exec", "cmd": "echo quick"}, nil)
		if f, body := c.Receive(); string(body) != "quick\r\n" {
			t.Fatalf("got %v %q", f, body)
		}
	}
}
