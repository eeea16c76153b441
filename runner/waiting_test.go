package main

import (
	"bytes"
	"fmt"
	"testing"
)

// until reads replies up to the one to a request, and gives it.
func (c *client) until(id string) fields {
	c.t.Helper()
	for {
		f, _ := c.receive()
		if f == nil || f["id"] == id {
			return f
		}
	}
}

func TestWritesToAProcessThatDoesNotReadLeaveRoomForOtherRequests(t *testing.T) {
	c := startRunner(t, nil).dial()
	pid := c.start(fields{"argv": []string{"sleep", "60"}, "stdin": true})
	feed := func(id string) { c.send(fields{"id": id, "type": "process.stdin", "pid": pid}, []byte("more")) }
	c.send(fields{"id": "full", "type": "process.stdin", "pid": pid}, bytes.Repeat([]byte("x"), 64<<10)) // all that a pipe holds
	if f := c.until("full"); f["ok"] != true {
		t.Fatalf("got %v", f)
	}
	// The place of the first write may be given back only now: one more makes sure that all are taken.
	for i := 0; i <= patient["process.stdin"].places; i++ {
		feed(fmt.Sprint("feed", i))
	}
	feed("one more")
	if f := c.until("one more"); f["code"] != codeTooManyWaiting {
		t.Errorf("got %v", f)
	}
	for i := 0; i < maxConcurrent+1; i++ {
		feed("another")
		if f := c.until("another"); f["code"] != codeTooManyWaiting {
			t.Fatalf("got %v", f)
		}
	}
	if f, _ := c.call("ping", nil); f["ok"] != true {
		t.Errorf("got %v", f)
	}
	if f, _ := c.call("process.signal", fields{"pid": pid, "signal": "KILL"}); f["ok"] != true {
		t.Errorf("got %v", f)
	}
}

func TestTheBytesThatWaitForAProcessAreBounded(t *testing.T) {
	c := startRunner(t, nil).dial()
	pid := c.start(fields{"argv": []string{"sleep", "60"}, "stdin": true})
	c.send(fields{"id": "large", "type": "process.stdin", "pid": pid}, bytes.Repeat([]byte("x"), 2*maxWaitingInput))
	c.send(fields{"id": "more", "type": "process.stdin", "pid": pid}, []byte("more"))
	if f := c.until("more"); f["code"] != codeTooManyWaiting {
		t.Errorf("got %v", f)
	}
}

func TestCommandsThatWaitForTheirTurnLeaveRoomForOtherRequests(t *testing.T) {
	s := startRunner(t, nil)
	c := s.dial()
	for i := 0; i < patient["exec"].places; i++ {
		c.send(fields{"id": fmt.Sprint("exec", i), "type": "exec", "cmd": "until test -e go; do sleep 0.01; done"}, nil)
	}
	c.send(fields{"id": "one more", "type": "exec", "cmd": "true"}, nil)
	if f := c.until("one more"); f["code"] != codeTooManyWaiting {
		t.Errorf("got %v", f)
	}
	c.send(fields{"id": "write", "type": "write", "path": "go"}, []byte{})
	for left := patient["exec"].places + 1; left > 0; left-- {
		if f, _ := c.receive(); f == nil || f["type"] == "error" {
			t.Fatalf("got %v", f)
		}
	}
	if got := c.exec("echo again"); got.out != "again\r\n" {
		t.Errorf("got %+v", got)
	}
}
