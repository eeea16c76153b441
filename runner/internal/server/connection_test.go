package server

import (
	"bytes"
	"net"
	"os"
	"strings"
	"testing"

	"sandglass/runner/internal/runnertest"
	"sandglass/runner/internal/wire"
)

func TestTheFirstLineMustBeAGoodHello(t *testing.T) {
	s := runnertest.Start(t, nil)
	for _, c := range []struct{ title, line, code string }{
		{"a wrong token", `{"type":"hello","version":1,"token":"wrong"}`, wire.CodeUnauthorized},
		{"no token", `{"type":"hello","version":1}`, wire.CodeUnauthorized},
		{"another version", `{"type":"hello","version":2,"token":"` + runnertest.Token + `"}`, wire.CodeInvalidRequest},
		{"a request", `{"id":"1","type":"ping"}`, wire.CodeInvalidRequest},
		{"no JSON", `GET / HTTP/1.1`, wire.CodeInvalidRequest},
		{"too long a line", strings.Repeat("x", wire.MaxLineBytes+2), wire.CodeInvalidRequest},
	} {
		t.Run(c.title, func(t *testing.T) {
			client := s.DialRaw()
			go client.Conn.Write([]byte(c.line + "\n"))
			if f, _ := client.Receive(); f["type"] != "error" || f["code"] != c.code {
				t.Errorf("answer: %v", f)
			}
			if f, _ := client.Receive(); f != nil {
				t.Errorf("the connection stayed open: %v", f)
			}
		})
	}
}

func TestASilentClientIsCutOff(t *testing.T) {
	t.Parallel()
	s := runnertest.Start(t, nil)
	if f, _ := s.DialRaw().Receive(); f != nil {
		t.Errorf("got %v", f)
	}
}

func TestTheBootIDStaysWhileTheRunnerLives(t *testing.T) {
	s := runnertest.Start(t, nil)
	ids := map[any]bool{}
	for i := 0; i < 2; i++ {
		c := s.DialRaw()
		c.Send(wire.Fields{"type": "hello", "version": 1, "token": runnertest.Token}, nil)
		ready, _ := c.Receive()
		if ready["ready"] != true || ready["version"] != 1.0 || ready["pid"] == nil {
			t.Errorf("ready is %v", ready)
		}
		ids[ready["boot_id"]] = true
	}
	if len(ids) != 1 {
		t.Errorf("boot ids %v", ids)
	}
}

func TestBadRequestsAreAnsweredAndBoundsCloseTheConnection(t *testing.T) {
	s := runnertest.Start(t, nil)
	for _, c := range []struct {
		title, line, code string
		closes            bool
	}{
		{"an unknown type", `{"id":"1","type":"nonsense"}`, wire.CodeInvalidRequest, false},
		{"an unknown type with a body", `{"id":"1","type":"nonsense","bytes":3}` + "\nabc", wire.CodeInvalidRequest, false},
		{"no id", `{"type":"ping"}`, wire.CodeInvalidRequest, true},
		{"too long an id", `{"id":"` + strings.Repeat("x", 65) + `","type":"ping"}`, wire.CodeInvalidRequest, true},
		{"no object", `[]`, wire.CodeInvalidRequest, true},
		{"a negative body", `{"id":"1","type":"ping","bytes":-1}`, wire.CodeInvalidRequest, true},
		{"too large a body", `{"id":"1","type":"process.stdin","bytes":67108865}`, wire.CodeBodyTooLarge, true},
		{"a line of 9 MiB", `{"id":"1","type":"exec","cmd":"` + strings.Repeat("x", 9<<20) + `"}`, wire.CodeInvalidRequest, true},
	} {
		t.Run(c.title, func(t *testing.T) {
			client := s.Dial()
			line := c.line
			if !strings.Contains(line, "\n") {
				line += "\n"
			}
			go client.Conn.Write([]byte(line))
			if f, _ := client.Receive(); f["type"] != "error" || f["code"] != c.code {
				t.Errorf("answer: %v", f)
			}
			if c.closes {
				if f, _ := client.Receive(); f != nil {
					t.Errorf("the connection stayed open: %v", f)
				}
				return
			}
			if f, _ := client.Call("ping", nil); f["ok"] != true {
				t.Errorf("afterwards: %v", f)
			}
		})
	}
}

func TestAStreamNeedsAConnectionOfItsOwn(t *testing.T) {
	c := runnertest.Start(t, nil).Dial()
	c.Call("ping", nil)
	if f, _ := c.Call("exec", wire.Fields{"cmd": "echo", "stream": true}); f["code"] != wire.CodeInvalidRequest {
		t.Errorf("answer: %v", f)
	}
}

func TestRequestsOfOneConnectionRunAtOnce(t *testing.T) {
	c := runnertest.Start(t, nil).Dial()
	c.Request("exec", wire.Fields{"cmd": "until test -e go; do sleep 0.01; done", "shell": "a"})
	c.Request("exec", wire.Fields{"cmd": "touch go", "shell": "b"})
	for i := 0; i < 2; i++ {
		if f, body := c.Receive(); runnertest.AsResult(t, f, body).Code != 0 {
			t.Errorf("got %v", f)
		}
	}
}

func TestAProcessThatDoesNotReadHoldsUpNobody(t *testing.T) {
	c := runnertest.Start(t, nil).Dial()
	f, _ := c.Call("process.start", wire.Fields{"argv": []string{"sleep", "60"}, "stdin": true})
	pid := f["process"].(map[string]any)["pid"]
	c.Send(wire.Fields{"id": "feed", "type": "process.stdin", "pid": pid}, bytes.Repeat([]byte("x"), 1<<20))
	if f, _ := c.Call("ping", nil); f["ok"] != true {
		t.Errorf("got %v", f)
	}
}

func socketPair(t *testing.T) (net.Conn, *os.File) {
	t.Helper()
	listener, err := net.Listen("unix", t.TempDir()+"/pair")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	ours, err := net.Dial("unix", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	accepted, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer accepted.Close()
	theirs, err := accepted.(*net.UnixConn).File()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ours.Close() })
	return ours, theirs
}
