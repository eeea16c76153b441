package shell

import (
	"strings"
	"testing"

	"sandglass/runner/internal/runnertest"
	"sandglass/runner/internal/spawn"
	"sandglass/runner/internal/wire"
)

func TestACancelledCommandIsEndedAndItsShellLivesOn(t *testing.T) {
	for _, c := range []struct {
		title, cmd string
		code       int
	}{
		{"a program", "touch ~/up; sleep 60", 130},
		{"one that ignores the interrupt", "sh -c 'trap \"\" INT; touch ~/up; sleep 60; sleep 60'; touch ~/late", 137},
		{"one that ignores the interrupt until it executes another", "bash -c 'trap \"\" INT; touch ~/up; sleep 0.1; trap - INT; exec sleep 60'; touch ~/late", 130},
		{"one that ends as it likes", "sh -c 'trap \"exit 7\" INT; touch ~/up; while :; do sleep 0.01; done'; touch ~/late", 130},
		{"a loop of the shell", "touch ~/up; while :; do :; done", 130},
	} {
		c := c
		t.Run(c.title, func(t *testing.T) {
			t.Parallel()
			s := runnertest.Start(t, nil)
			client, other := s.Dial(), s.Dial()
			client.Exec("cd /usr; A=kept")
			client.Request("exec", wire.Fields{"cmd": c.cmd, "key": "mine"})
			s.Begun("up")
			if f, _ := other.Call("exec.cancel", wire.Fields{"key": "mine"}); f["ok"] != true {
				t.Errorf("got %v", f)
			}
			f, body := client.Receive()
			if got := runnertest.AsResult(t, f, body); got.Code != c.code || got.TimedOut || got.Exited || got.Out != "" {
				t.Errorf("got %+v", got)
			}
			if got := client.Exec("ls ~/late 2>/dev/null; echo $PWD $A"); got.Out != "/usr kept\r\n" {
				t.Errorf("afterwards: %+v", got)
			}
			if f, _ := other.Call("exec.cancel", wire.Fields{"key": "mine"}); f["ok"] != true {
				t.Errorf("a command that is over: %v", f)
			}
		})
	}
}

// A cancelled command line does not continue, however the shell handles an interrupt.
func TestACommandThatIsEndedDoesNotGoOnInAShellThatIgnoresInterrupts(t *testing.T) {
	for _, trap := range []string{"trap '' INT", "trap 'echo no' INT"} {
		trap := trap
		t.Run(trap, func(t *testing.T) {
			t.Parallel()
			c := runnertest.Start(t, nil).Dial()
			got := c.Exec(trap+"; for i in 1 2 3; do sleep 60; echo $i >>~/steps; done", wire.Fields{"timeout_ms": 200})
			if !got.TimedOut || got.Code != spawn.TimeoutStatus {
				t.Errorf("got %+v", got)
			}
			if got := c.Exec("cat ~/steps"); got.Code == 0 && strings.Count(got.Out, "\n") > 1 {
				t.Errorf("it went on: %q", got.Out)
			}
		})
	}
}

func TestACommandThatWaitsIsWithdrawn(t *testing.T) {
	s := runnertest.Start(t, nil)
	first, third := s.Dial(), s.Dial()
	first.Request("exec", wire.Fields{"cmd": "touch up; until test -e go; do sleep 0.01; done"})
	s.Begun("up")
	second := s.Dial()
	second.Stream(wire.Fields{"cmd": "touch late", "key": "second"})
	if f, _ := second.Receive(); f["type"] != "exec_waiting" {
		t.Fatalf("got %v", f)
	}
	third.Stream(wire.Fields{"cmd": "test -e late"})
	s.Dial().Call("exec.cancel", wire.Fields{"key": "second"})
	if got, _ := second.Streamed(); got.Code != 130 || !got.NeverBegan || got.TimedOut {
		t.Errorf("got %+v", got)
	}
	s.Dial().Call("write", wire.Fields{"path": "go", "content_base64": ""})
	first.Receive()
	got, told := third.Streamed()
	if got.Code != 1 || strings.Join(told, " ") != "exec_waiting exec_started" {
		t.Errorf("got %+v after %v", got, told)
	}
}

func TestACommandThatWaitsForThePromptIsWithdrawn(t *testing.T) {
	s := runnertest.Start(t, nil)
	s.Dial().Exec("PS1='" + runnertest.Prompt + "'")
	v := s.AttachShell(wire.Fields{"name": "main"})
	v.Shows(runnertest.Prompt)
	v.Key("touch up; cat\r")
	s.Begun("up")
	c := s.Dial()
	c.Stream(wire.Fields{"cmd": "touch late", "key": "it"})
	if f, _ := c.Receive(); f["type"] != "exec_waiting" {
		t.Fatalf("got %v", f)
	}
	s.Dial().Call("exec.cancel", wire.Fields{"key": "it"})
	if got, _ := c.Streamed(); !got.NeverBegan {
		t.Errorf("got %+v", got)
	}
	v.Key("\x04")
	v.Shows(runnertest.Prompt)
	v.Key("ls late\r")
	v.Shows("cannot access 'late'")
}

func TestAShellIsInterrupted(t *testing.T) {
	s := runnertest.Start(t, nil)
	c, other := s.Dial(), s.Dial()
	interrupt := func(name string) any {
		f, _ := other.Call("shell.interrupt", wire.Fields{"name": name})
		if f["type"] == "error" {
			return f["code"]
		}
		return f["interrupted"]
	}
	if got := interrupt("main"); got != false {
		t.Errorf("before there is one: %v", got)
	}
	if got := interrupt("nobody"); got != wire.CodeShellNotFound {
		t.Errorf("one that is not there: %v", got)
	}
	c.Exec("A=kept; PS1='" + runnertest.Prompt + "'")
	if got := interrupt("main"); got != false {
		t.Errorf("an idle one: %v", got)
	}
	c.Request("exec", wire.Fields{"cmd": "sh -c 'trap \"\" INT; touch up; sleep 60; sleep 60'"})
	s.Begun("up")
	if got := interrupt("main"); got != true {
		t.Errorf("a busy one: %v", got)
	}
	if f, body := c.Receive(); runnertest.AsResult(t, f, body).Code != 137 {
		t.Errorf("got %v", f)
	}
	v := s.AttachShell(wire.Fields{"name": "main"})
	v.Shows(runnertest.Prompt)
	if got := interrupt("main"); got != false {
		t.Errorf("one at its prompt: %v", got)
	}
	v.Key("touch typed; sleep 60\r")
	s.Begun("typed")
	if got := interrupt("main"); got != true {
		t.Errorf("one in which a person runs something: %v", got)
	}
	v.Shows(runnertest.Prompt)
	if got := c.Exec("echo $A"); got.Out != "kept\r\n" {
		t.Errorf("afterwards: %+v", got)
	}
}

func TestShIsCancelledToo(t *testing.T) {
	s := runnertest.Start(t, wire.Fields{"shell": "sh"})
	c := s.Dial()
	c.Exec("A=kept")
	c.Request("exec", wire.Fields{"cmd": "touch up; sleep 60", "key": "it"})
	s.Begun("up")
	s.Dial().Call("exec.cancel", wire.Fields{"key": "it"})
	f, body := c.Receive()
	if got := runnertest.AsResult(t, f, body); got.Code != 130 || got.Exited {
		t.Errorf("got %+v", got)
	}
	if got := c.Exec("echo $A"); got.Out != "kept\r\n" {
		t.Errorf("afterwards: %+v", got)
	}
}

func TestACommandLineOfShThatIsEndedDoesNotGoOn(t *testing.T) {
	for title, cmd := range map[string]string{
		"a program":                      "touch ~/up; sleep 60; touch ~/late",
		"one that ignores the interrupt": "sh -c 'trap \"\" INT; touch ~/up; sleep 60'; touch ~/late",
		"a loop of programs":             "touch ~/up; while :; do sleep 0.01; done; touch ~/late",
		"a loop of the shell":            "touch ~/up; while :; do :; done; touch ~/late",
	} {
		cmd := cmd
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			c := runnertest.Start(t, wire.Fields{"shell": "sh"}).Dial()
			c.Exec("A=kept")
			if got := c.Exec(cmd, wire.Fields{"timeout_ms": 300}); !got.TimedOut || got.Exited {
				t.Errorf("got %+v", got)
			}
			if got := c.Exec("ls ~/late 2>/dev/null; echo $A"); got.Out != "kept\r\n" {
				t.Errorf("afterwards: %+v", got)
			}
		})
	}
}
