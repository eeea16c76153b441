package runnertest

import (
	"sandglass/runner/internal/wire"
)

// Start starts a process and returns its pid.
func (c *Client) Start(args wire.Fields) int {
	c.t.Helper()
	f, _ := c.Call("process.start", args)
	p, ok := f["process"].(map[string]any)
	if !ok {
		c.t.Fatalf("start %v: %v", args, f)
	}
	return int(p["pid"].(float64))
}

func (c *Client) Process(pid int) map[string]any {
	c.t.Helper()
	f, _ := c.Call("process.get", wire.Fields{"pid": pid})
	p, ok := f["process"].(map[string]any)
	if !ok {
		c.t.Fatalf("get %d: %v", pid, f)
	}
	return p
}

// Attach attaches a new connection to the process and reads the reply.
func (s *Sandbox) Attach(pid int, args wire.Fields) *Client {
	s.T.Helper()
	c := s.Dial()
	if args == nil {
		args = wire.Fields{}
	}
	args["pid"] = pid
	if f, _ := c.Call("process.attach", args); f["process"] == nil {
		s.T.Fatalf("attach %d: %v", pid, f)
	}
	return c
}

// Finish reads the output of an attached process to its end.
func (c *Client) Finish() (stdout, stderr string, exit wire.Fields) {
	c.t.Helper()
	for {
		f, body := c.Receive()
		switch {
		case f == nil:
			c.t.Fatal("the connection ended without an exit")
		case f["type"] == "stdout":
			stdout += string(body)
		case f["type"] == "stderr":
			stderr += string(body)
		default:
			return stdout, stderr, f
		}
	}
}

func Sh(script string) []string { return []string{"sh", "-c", script} }
