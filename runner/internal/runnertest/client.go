package runnertest

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"sandglass/runner/internal/wire"
)

func (c *Client) Content(path string) string {
	c.Send(wire.Fields{"id": "r", "type": "read", "path": path}, nil)
	_, body := c.Receive()
	return string(body)
}

// A Client is one connection to a runner.
type Client struct {
	t    *testing.T
	Conn net.Conn
	In   *wire.Reader
	next int
}

func (s *Sandbox) DialRaw() *Client {
	s.T.Helper()
	conn, err := net.Dial("unix", s.Socket)
	if err != nil {
		s.T.Fatal(err)
	}
	s.T.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(50 * time.Second))
	return &Client{t: s.T, Conn: conn, In: wire.NewReader(conn)}
}

func (s *Sandbox) Dial() *Client {
	s.T.Helper()
	c := s.DialRaw()
	c.Send(wire.Fields{"type": "hello", "version": 1, "token": Token}, nil)
	if ready, _ := c.Receive(); ready["type"] != "ready" {
		s.T.Fatalf("no ready line but %v", ready)
	}
	return c
}

func (c *Client) Send(f wire.Fields, body []byte) {
	c.t.Helper()
	if body != nil {
		f["bytes"] = len(body)
	}
	line, err := json.Marshal(f)
	if err != nil {
		c.t.Fatal(err)
	}
	if _, err := c.Conn.Write(append(append(line, '\n'), body...)); err != nil {
		c.t.Fatal(err)
	}
}

// Receive returns the next message; nil at the end of the connection.
func (c *Client) Receive() (wire.Fields, []byte) {
	c.t.Helper()
	line, err := c.In.Line()
	if err != nil {
		return nil, nil
	}
	f := wire.Fields{}
	if err := json.Unmarshal(line, &f); err != nil {
		c.t.Fatalf("%q: %v", line, err)
	}
	if n, ok := f["bytes"].(float64); ok {
		body, err := io.ReadAll(c.In.Body(int64(n)))
		if err != nil {
			c.t.Fatal(err)
		}
		return f, body
	}
	return f, nil
}

// Call sends one request and waits for its reply.
func (c *Client) Call(kind string, args wire.Fields) (wire.Fields, []byte) {
	c.t.Helper()
	c.Request(kind, args)
	return c.Receive()
}

func (c *Client) Request(kind string, args wire.Fields) {
	c.t.Helper()
	c.next++
	f := wire.Fields{"id": fmt.Sprint(c.next), "type": kind}
	for k, v := range args {
		f[k] = v
	}
	c.Send(f, nil)
}

// A Result is the reply to an exec.
type Result struct {
	Code              int
	Out               string
	TimedOut, Exited  bool
	NeverBegan        bool
	Truncated         bool
	Cwd               string
	Failure, errorMsg string
}

func (c *Client) Exec(cmd string, args ...wire.Fields) Result {
	c.t.Helper()
	all := wire.Fields{"cmd": cmd}
	for _, more := range args {
		for k, v := range more {
			all[k] = v
		}
	}
	f, body := c.Call("exec", all)
	return AsResult(c.t, f, body)
}

// Stream sends an exec with a stream and reads its reply.
func (c *Client) Stream(args wire.Fields) {
	c.t.Helper()
	args["stream"] = true
	if f, _ := c.Call("exec", args); f["type"] != "exec" {
		c.t.Fatalf("got %v", f)
	}
}

// Streamed reads a stream to its end. It returns the result with the output, and the types of the other messages.
func (c *Client) Streamed() (Result, []string) {
	c.t.Helper()
	var out []byte
	var told []string
	for {
		f, body := c.Receive()
		switch f["type"] {
		case "exec_chunk":
			out = append(out, body...)
			continue
		case "exec_waiting", "exec_started":
			told = append(told, f["type"].(string))
			continue
		}
		return AsResult(c.t, f, out), told
	}
}

func AsResult(t *testing.T, f wire.Fields, body []byte) Result {
	t.Helper()
	if f == nil {
		t.Fatal("the connection ended")
	}
	if f["type"] == "error" {
		return Result{Failure: f["code"].(string), errorMsg: f["message"].(string)}
	}
	return Result{
		Code: int(f["exit_code"].(float64)), Out: string(body), TimedOut: f["timed_out"].(bool), Exited: f["shell_exited"].(bool),
		Truncated: f["truncated"].(bool), Cwd: f["cwd"].(string), NeverBegan: f["started"] == false,
	}
}

// Until reads replies up to the one with this id and returns it.
func (c *Client) Until(id string) wire.Fields {
	c.t.Helper()
	for {
		f, _ := c.Receive()
		if f == nil || f["id"] == id {
			return f
		}
	}
}
