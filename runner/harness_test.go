package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

const (
	testToken = "a token for tests only"
	patience  = 20 * time.Second // longest wait for something that must happen
)

var runnerBinary string

// TestMain builds the program as it ships; the tests talk to it over its socket.
func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "runner-test")
	if err != nil {
		panic(err)
	}
	runnerBinary = filepath.Join(dir, "runner")
	build := exec.Command("go", "build", "-o", runnerBinary, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build runner: %v\n%s", err, out)
		os.Exit(1)
	}
	registerHandlers()
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// A sandbox is a running runner.
type sandbox struct {
	t      *testing.T
	dir    string
	socket string
	cmd    *exec.Cmd
	stderr *bytes.Buffer
}

// startRunner starts a runner whose workdir and home are a fresh folder.
func startRunner(t *testing.T, overrides fields) *sandbox {
	t.Helper()
	dir, err := os.MkdirTemp("", "rt")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	s := &sandbox{t: t, dir: dir, socket: dir + "/sock", stderr: &bytes.Buffer{}}
	cfg := fields{"token": testToken, "workdir": dir, "home": dir}
	for k, v := range overrides {
		cfg[k] = v
	}
	data, err := json.Marshal(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir+"/config", data, 0o600); err != nil {
		t.Fatal(err)
	}
	s.cmd = exec.Command(runnerBinary, "--listen", s.socket, "--config-file", dir+"/config")
	s.cmd.Stderr = s.stderr
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.cmd.Process.Signal(os.Interrupt)
		stuck := time.AfterFunc(patience, func() { s.cmd.Process.Kill() })
		s.cmd.Wait()
		stuck.Stop()
		os.RemoveAll(dir)
	})
	eventually(t, "the runner listens", func() bool {
		conn, err := net.Dial("unix", s.socket)
		if err != nil {
			return false
		}
		conn.Close()
		return true
	})
	return s
}

// eventually waits for a condition.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		if condition() {
			return
		}
		time.Sleep(2 * time.Millisecond)
	}
	t.Fatalf("it never happened that %s", what)
}

// A client is one connection to a runner.
type client struct {
	t    *testing.T
	conn net.Conn
	in   *wireReader
	next int
}

func (s *sandbox) dialRaw() *client {
	s.t.Helper()
	conn, err := net.Dial("unix", s.socket)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(50 * time.Second))
	return &client{t: s.t, conn: conn, in: newWireReader(conn)}
}

func (s *sandbox) dial() *client {
	s.t.Helper()
	c := s.dialRaw()
	c.send(fields{"type": "hello", "version": 1, "token": testToken}, nil)
	if ready, _ := c.receive(); ready["type"] != "ready" {
		s.t.Fatalf("no ready line but %v", ready)
	}
	return c
}

func (c *client) send(f fields, body []byte) {
	c.t.Helper()
	if body != nil {
		f["bytes"] = len(body)
	}
	line, err := json.Marshal(f)
	if err != nil {
		c.t.Fatal(err)
	}
	if _, err := c.conn.Write(append(append(line, '\n'), body...)); err != nil {
		c.t.Fatal(err)
	}
}

// receive gives the next message; nil at the end of the connection.
func (c *client) receive() (fields, []byte) {
	c.t.Helper()
	line, err := c.in.line()
	if err != nil {
		return nil, nil
	}
	f := fields{}
	if err := json.Unmarshal(line, &f); err != nil {
		c.t.Fatalf("%q: %v", line, err)
	}
	if n, ok := f["bytes"].(float64); ok {
		body, err := io.ReadAll(c.in.body(int64(n)))
		if err != nil {
			c.t.Fatal(err)
		}
		return f, body
	}
	return f, nil
}

// call sends one request and waits for its reply.
func (c *client) call(kind string, args fields) (fields, []byte) {
	c.t.Helper()
	c.request(kind, args)
	return c.receive()
}

func (c *client) request(kind string, args fields) {
	c.t.Helper()
	c.next++
	f := fields{"id": fmt.Sprint(c.next), "type": kind}
	for k, v := range args {
		f[k] = v
	}
	c.send(f, nil)
}

// A result is the reply to an exec.
type result struct {
	code              int
	out               string
	timedOut, exited  bool
	neverBegan        bool
	truncated         bool
	cwd               string
	failure, errorMsg string
}

func (c *client) exec(cmd string, args ...fields) result {
	c.t.Helper()
	all := fields{"cmd": cmd}
	for _, more := range args {
		for k, v := range more {
			all[k] = v
		}
	}
	f, body := c.call("exec", all)
	return asResult(c.t, f, body)
}

// stream sends an exec whose output streams, and takes its reply.
func (c *client) stream(args fields) {
	c.t.Helper()
	args["stream"] = true
	if f, _ := c.call("exec", args); f["type"] != "exec" {
		c.t.Fatalf("got %v", f)
	}
}

// streamed reads a stream to its end: the result, with the output, and the types of the messages that were no output.
func (c *client) streamed() (result, []string) {
	c.t.Helper()
	var out []byte
	var told []string
	for {
		f, body := c.receive()
		switch f["type"] {
		case "exec_chunk":
			out = append(out, body...)
			continue
		case "exec_waiting", "exec_started":
			told = append(told, f["type"].(string))
			continue
		}
		return asResult(c.t, f, out), told
	}
}

func asResult(t *testing.T, f fields, body []byte) result {
	t.Helper()
	if f == nil {
		t.Fatal("the connection ended")
	}
	if f["type"] == "error" {
		return result{failure: f["code"].(string), errorMsg: f["message"].(string)}
	}
	return result{
		code: int(f["exit_code"].(float64)), out: string(body), timedOut: f["timed_out"].(bool), exited: f["shell_exited"].(bool),
		truncated: f["truncated"].(bool), cwd: f["cwd"].(string), neverBegan: f["started"] == false,
	}
}
