package shell

import (
	"bytes"
	"fmt"
	"os"
	"testing"

	"sandglass/runner/internal/mux"
	"sandglass/runner/internal/runnertest"
	"sandglass/runner/internal/wire"
)

func TestAClientThatGoesWhileItsKeysWaitIsDetached(t *testing.T) {
	for _, shell := range []string{"bash", "sh"} {
		t.Run(shell, func(t *testing.T) {
			s := runnertest.Start(t, wire.Fields{"shell": shell})
			c := s.Dial()
			c.Exec("true")
			v := s.AttachShell(wire.Fields{"name": "main"})
			v.Key("stty raw -echo; echo is''raw; sleep 60\r")
			v.Shows("israw")
			v.C.Fill()
			v.C.Conn.Close()
			runnertest.Eventually(t, "nobody is attached", func() bool { return c.AttachedTo() == 0.0 })
		})
	}
}

func TestAStreamThatGoesWhileItsKeysWaitIsDetached(t *testing.T) {
	s := runnertest.Start(t, nil)
	c := s.Dial()
	c.Exec("true")
	v := s.AttachShell(wire.Fields{"name": "main"})
	v.Key("stty raw -echo; echo is''raw; sleep 60\r")
	v.Shows("israw")
	m := s.Mux()
	m.Write(runnertest.NewFrame(mux.Open, 1, nil))
	m.Write(runnertest.NewFrame(mux.Data, 1, []byte(`{"id":"1","type":"shell.attach","name":"main"}`+"\n"+`{"type":"stdin","bytes":200000}`+"\n")))
	for i := 0; i < 3; i++ {
		m.Write(runnertest.NewFrame(mux.Data, 1, bytes.Repeat([]byte("x"), 60_000)))
	}
	runnertest.Eventually(t, "two are attached", func() bool { return c.AttachedTo() == 2.0 })
	m.Write(runnertest.NewFrame(mux.End, 1, nil))
	runnertest.Eventually(t, "one is attached", func() bool { return c.AttachedTo() == 1.0 })
}

// Input that was sent before the client closed reaches a process that reads it later.
func TestInputThatWasTakenIsReadAfterItsClientHasGone(t *testing.T) {
	s := runnertest.Start(t, nil)
	c := s.Dial()
	pid := c.Start(wire.Fields{"argv": runnertest.Sh("until test -e go; do sleep 0.01; done; wc -c > count"), "stdin": true})
	a := s.Attach(pid, nil)
	a.Send(wire.Fields{"type": "stdin"}, bytes.Repeat([]byte("x"), 150_000))
	a.Send(wire.Fields{"type": "stdin_eof"}, nil)
	a.Conn.Close()
	c.Exec("touch go")
	runnertest.Eventually(t, "the process has read all of it", func() bool { return c.Content("count") == "150000\n" })
}

func TestAClientThatGoesWhileItsInputWaitsLeavesNothingOpen(t *testing.T) {
	s := runnertest.Start(t, nil)
	c := s.Dial()
	pid := c.Start(wire.Fields{"argv": []string{"sleep", "60"}, "stdin": true})
	open := func() int {
		list, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.Cmd.Process.Pid))
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}
	before := open()
	a := s.Attach(pid, nil)
	a.Fill()
	a.Conn.Close()
	runnertest.Eventually(t, "its connection is closed", func() bool { return open() == before })
}
