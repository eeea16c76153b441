package process

import (
	"testing"

	"sandglass/runner/internal/runnertest"
	"sandglass/runner/internal/wire"
)

func TestKeptOutputIsReadWithoutWaitingForMore(t *testing.T) {
	s := runnertest.Start(t, nil)
	c := s.Dial()
	pid := c.Start(wire.Fields{"argv": runnertest.Sh("echo out; echo err >&2; read line"), "stdin": true, "detach": true})
	live := s.Attach(pid, nil)
	for n := 0; n < len("out\nerr\n"); {
		_, body := live.Receive()
		n += len(body)
	}
	live.Conn.Close()
	kept := s.Attach(pid, wire.Fields{"follow": false})
	stdout, stderr, end := kept.Finish()
	if stdout != "out\n" || stderr != "err\n" || end["type"] != "kept" {
		t.Errorf("got %q, %q, %v", stdout, stderr, end)
	}
	if p := c.Process(pid); p["detached"] != true || p["stdin_open"] != true {
		t.Errorf("got %v", p)
	}
	c.Call("process.signal", wire.Fields{"pid": pid, "signal": "KILL"})
	s.Attach(pid, nil).Finish()
	if _, _, end := s.Attach(pid, wire.Fields{"follow": false}).Finish(); end["exit_code"] != 137.0 {
		t.Errorf("of an ended process: %v", end)
	}
}

func TestAProcessAsksTheFirstTerminalAndNotTheNext(t *testing.T) {
	s := runnertest.Start(t, nil)
	c := s.Dial()
	pid := c.Start(wire.Fields{"argv": runnertest.Sh("printf 'one" + runnertest.PrintedQueries + "two\\n'"), "tty": wire.Fields{"cols": 80, "rows": 24}, "hold_output": true})
	if out, _, _ := s.Attach(pid, nil).Finish(); out != "one"+runnertest.Queries+"two\r\n" {
		t.Errorf("at first: %q", out)
	}
	if out, _, _ := s.Attach(pid, nil).Finish(); out != "onetwo\r\n" {
		t.Errorf("again: %q", out)
	}
}
