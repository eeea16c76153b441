package main

import "testing"

func TestKeptOutputIsReadWithoutWaitingForMore(t *testing.T) {
	s := startRunner(t, nil)
	c := s.dial()
	pid := c.start(fields{"argv": sh("echo out; echo err >&2; read line"), "stdin": true, "detach": true})
	live := s.attach(pid, nil)
	for n := 0; n < len("out\nerr\n"); {
		_, body := live.receive()
		n += len(body)
	}
	live.conn.Close()
	kept := s.attach(pid, fields{"follow": false})
	stdout, stderr, end := kept.finish()
	if stdout != "out\n" || stderr != "err\n" || end["type"] != "kept" {
		t.Errorf("got %q, %q, %v", stdout, stderr, end)
	}
	if p := c.process(pid); p["detached"] != true || p["stdin_open"] != true {
		t.Errorf("got %v", p)
	}
	c.call("process.signal", fields{"pid": pid, "signal": "KILL"})
	s.attach(pid, nil).finish()
	if _, _, end := s.attach(pid, fields{"follow": false}).finish(); end["exit_code"] != 137.0 {
		t.Errorf("of an ended process: %v", end)
	}
}
