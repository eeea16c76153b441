package main

import (
	"bytes"
	"fmt"
	"os"
	"testing"
	"time"
)

// fill sends input until no more of it is taken.
func (c *client) fill() {
	c.t.Helper()
	c.conn.SetWriteDeadline(time.Now().Add(time.Second))
	line := fmt.Sprintf(`{"type":"stdin","bytes":%d}`+"\n", 8<<20)
	_, err := c.conn.Write(append([]byte(line), bytes.Repeat([]byte("x"), 8<<20)...))
	if !os.IsTimeout(err) {
		c.t.Fatalf("8 MiB of input that nobody reads were taken: %v", err)
	}
}

// attachedTo tells how many terminals the shell main has.
func (c *client) attachedTo() any {
	f, _ := c.call("shell.list", nil)
	return f["shells"].([]any)[0].(map[string]any)["attached"]
}

func TestAClientThatGoesWhileItsKeysWaitIsDetached(t *testing.T) {
	for _, shell := range []string{"bash", "sh"} {
		t.Run(shell, func(t *testing.T) {
			s := startRunner(t, fields{"shell": shell})
			c := s.dial()
			c.exec("true")
			v := s.attachShell(fields{"name": "main"})
			v.key("stty raw -echo; echo is''raw; sleep 60\r")
			v.shows("israw")
			v.c.fill()
			v.c.conn.Close()
			eventually(t, "nobody is attached", func() bool { return c.attachedTo() == 0.0 })
		})
	}
}

func TestAStreamThatGoesWhileItsKeysWaitIsDetached(t *testing.T) {
	s := startRunner(t, nil)
	c := s.dial()
	c.exec("true")
	v := s.attachShell(fields{"name": "main"})
	v.key("stty raw -echo; echo is''raw; sleep 60\r")
	v.shows("israw")
	m := s.mux()
	m.write(frame{muxOpen, 1, nil})
	m.write(frame{muxData, 1, []byte(`{"id":"1","type":"shell.attach","name":"main"}` + "\n" + `{"type":"stdin","bytes":200000}` + "\n")})
	for i := 0; i < 3; i++ {
		m.write(frame{muxData, 1, bytes.Repeat([]byte("x"), 60_000)})
	}
	eventually(t, "two are attached", func() bool { return c.attachedTo() == 2.0 })
	m.write(frame{muxEnd, 1, nil})
	eventually(t, "one is attached", func() bool { return c.attachedTo() == 1.0 })
}

// What was sent before the client went is still read by a process that takes its time.
func TestInputThatWasTakenIsReadAfterItsClientHasGone(t *testing.T) {
	s := startRunner(t, nil)
	c := s.dial()
	pid := c.start(fields{"argv": sh("until test -e go; do sleep 0.01; done; wc -c > count"), "stdin": true})
	a := s.attach(pid, nil)
	a.send(fields{"type": "stdin"}, bytes.Repeat([]byte("x"), 150_000))
	a.send(fields{"type": "stdin_eof"}, nil)
	a.conn.Close()
	c.exec("touch go")
	eventually(t, "the process has read all of it", func() bool { return c.content("count") == "150000\n" })
}

func TestAClientThatGoesWhileItsInputWaitsLeavesNothingOpen(t *testing.T) {
	s := startRunner(t, nil)
	c := s.dial()
	pid := c.start(fields{"argv": []string{"sleep", "60"}, "stdin": true})
	open := func() int {
		list, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.cmd.Process.Pid))
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}
	before := open()
	a := s.attach(pid, nil)
	a.fill()
	a.conn.Close()
	eventually(t, "its connection is closed", func() bool { return open() == before })
}
