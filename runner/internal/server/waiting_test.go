package server

import (
	"bytes"
	"fmt"
	"testing"

	"sandglass/runner/internal/runnertest"
	"sandglass/runner/internal/wire"
)

func TestWritesToAProcessThatDoesNotReadLeaveRoomForOtherRequests(t *testing.T) {
	c := runnertest.Start(t, nil).Dial()
	pid := c.Start(wire.Fields{"argv": []string{"sleep", "60"}, "stdin": true})
	feed := func(id string) { c.Send(wire.Fields{"id": id, "type": "process.stdin", "pid": pid}, []byte("more")) }
	c.Send(wire.Fields{"id": "full", "type": "process.stdin", "pid": pid}, bytes.Repeat([]byte("x"), 64<<10)) // all that a pipe holds
	if f := c.Until("full"); f["ok"] != true {
		t.Fatalf("got %v", f)
	}
	// The first write may still hold its slot: one more write makes sure that all slots are taken.
	for i := 0; i <= longLasting["process.stdin"].limit; i++ {
		feed(fmt.Sprint("feed", i))
	}
	feed("one more")
	if f := c.Until("one more"); f["code"] != wire.CodeTooManyWaiting {
		t.Errorf("got %v", f)
	}
	for i := 0; i < maxConcurrent+1; i++ {
		feed("another")
		if f := c.Until("another"); f["code"] != wire.CodeTooManyWaiting {
			t.Fatalf("got %v", f)
		}
	}
	if f, _ := c.Call("ping", nil); f["ok"] != true {
		t.Errorf("got %v", f)
	}
	if f, _ := c.Call("process.signal", wire.Fields{"pid": pid, "signal": "KILL"}); f["ok"] != true {
		t.Errorf("got %v", f)
	}
}

func TestCommandsThatWaitForTheirTurnLeaveRoomForOtherRequests(t *testing.T) {
	s := runnertest.Start(t, nil)
	c := s.Dial()
	for i := 0; i < longLasting["exec"].limit; i++ {
		c.Send(wire.Fields{"id": fmt.Sprint("exec", i), "type": "exec", "cmd": "until test -e go; do sleep 0.01; done"}, nil)
	}
	c.Send(wire.Fields{"id": "one more", "type": "exec", "cmd": "true"}, nil)
	if f := c.Until("one more"); f["code"] != wire.CodeTooManyWaiting {
		t.Errorf("got %v", f)
	}
	c.Send(wire.Fields{"id": "write", "type": "write", "path": "go"}, []byte{})
	for left := longLasting["exec"].limit + 1; left > 0; left-- {
		if f, _ := c.Receive(); f == nil || f["type"] == "error" {
			t.Fatalf("got %v", f)
		}
	}
	if got := c.Exec("echo again"); got.Out != "again\r\n" {
		t.Errorf("got %+v", got)
	}
}
