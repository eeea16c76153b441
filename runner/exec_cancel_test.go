package main

import (
	"strings"
	"testing"
)

// begun waits until a command has made the file.
func (s *sandbox) begun(file string) {
	s.t.Helper()
	c := s.dial()
	eventually(s.t, "the command runs", func() bool {
		f, _ := c.call("fs.stat", fields{"path": file})
		return f["type"] != "error"
	})
}

func TestACancelledCommandIsEndedAndItsShellLivesOn(t *testing.T) {
	for _, c := range []struct {
		title, cmd string
		code       int
	}{
		{"a program", "touch ~/up; sleep 60", 130},
		{"one that ignores the interrupt", "sh -c 'trap \"\" INT; touch ~/up; sleep 60; sleep 60'; touch ~/late", 137},
		{"one that ends as it likes", "sh -c 'trap \"exit 7\" INT; touch ~/up; while :; do sleep 0.01; done'; touch ~/late", 130},
		{"a loop of the shell", "touch ~/up; while :; do :; done", 130},
	} {
		c := c
		t.Run(c.title, func(t *testing.T) {
			t.Parallel()
			s := startRunner(t, nil)
			client, other := s.dial(), s.dial()
			client.exec("cd /usr; A=kept")
			client.request("exec", fields{"cmd": c.cmd, "key": "mine"})
			s.begun("up")
			if f, _ := other.call("exec.cancel", fields{"key": "mine"}); f["ok"] != true {
				t.Errorf("got %v", f)
			}
			f, body := client.receive()
			if got := asResult(t, f, body); got.code != c.code || got.timedOut || got.exited || got.out != "" {
				t.Errorf("got %+v", got)
			}
			if got := client.exec("ls ~/late 2>/dev/null; echo $PWD $A"); got.out != "/usr kept\r\n" {
				t.Errorf("afterwards: %+v", got)
			}
			if f, _ := other.call("exec.cancel", fields{"key": "mine"}); f["ok"] != true {
				t.Errorf("a command that is over: %v", f)
			}
		})
	}
}

// What is ended does not go on with the rest of its command line, whatever the shell does with an interrupt.
func TestACommandThatIsEndedDoesNotGoOnInAShellThatIgnoresInterrupts(t *testing.T) {
	for _, trap := range []string{"trap '' INT", "trap 'echo no' INT"} {
		trap := trap
		t.Run(trap, func(t *testing.T) {
			t.Parallel()
			c := startRunner(t, nil).dial()
			got := c.exec(trap+"; for i in 1 2 3; do sleep 60; echo $i >>~/steps; done", fields{"timeout_ms": 200})
			if !got.timedOut || got.code != timeoutCode {
				t.Errorf("got %+v", got)
			}
			if got := c.exec("cat ~/steps"); got.code == 0 && strings.Count(got.out, "\n") > 1 {
				t.Errorf("it went on: %q", got.out)
			}
		})
	}
}

func TestACommandThatWaitsIsWithdrawn(t *testing.T) {
	s := startRunner(t, nil)
	first, third := s.dial(), s.dial()
	first.request("exec", fields{"cmd": "touch up; until test -e go; do sleep 0.01; done"})
	s.begun("up")
	second := s.dial()
	second.stream(fields{"cmd": "touch late", "key": "second"})
	if f, _ := second.receive(); f["type"] != "exec_waiting" {
		t.Fatalf("got %v", f)
	}
	third.stream(fields{"cmd": "test -e late"})
	s.dial().call("exec.cancel", fields{"key": "second"})
	if got, _ := second.streamed(); got.code != 130 || !got.neverBegan || got.timedOut {
		t.Errorf("got %+v", got)
	}
	s.dial().call("write", fields{"path": "go", "content_base64": ""})
	first.receive()
	got, told := third.streamed()
	if got.code != 1 || strings.Join(told, " ") != "exec_waiting exec_started" {
		t.Errorf("got %+v after %v", got, told)
	}
}

func TestACommandThatWaitsForThePromptIsWithdrawn(t *testing.T) {
	s := startRunner(t, nil)
	s.dial().exec("PS1='" + prompt + "'")
	v := s.attachShell(fields{"name": "main"})
	v.shows(prompt)
	v.key("touch up; cat\r")
	s.begun("up")
	c := s.dial()
	c.stream(fields{"cmd": "touch late", "key": "it"})
	if f, _ := c.receive(); f["type"] != "exec_waiting" {
		t.Fatalf("got %v", f)
	}
	s.dial().call("exec.cancel", fields{"key": "it"})
	if got, _ := c.streamed(); !got.neverBegan {
		t.Errorf("got %+v", got)
	}
	v.key("\x04")
	v.shows(prompt)
	v.key("ls late\r")
	v.shows("cannot access 'late'")
}

func TestAShellIsInterrupted(t *testing.T) {
	s := startRunner(t, nil)
	c, other := s.dial(), s.dial()
	interrupt := func(name string) any {
		f, _ := other.call("shell.interrupt", fields{"name": name})
		if f["type"] == "error" {
			return f["code"]
		}
		return f["interrupted"]
	}
	if got := interrupt("main"); got != false {
		t.Errorf("before there is one: %v", got)
	}
	if got := interrupt("nobody"); got != codeShellNotFound {
		t.Errorf("one that is not there: %v", got)
	}
	c.exec("A=kept; PS1='" + prompt + "'")
	if got := interrupt("main"); got != false {
		t.Errorf("an idle one: %v", got)
	}
	c.request("exec", fields{"cmd": "sh -c 'trap \"\" INT; touch up; sleep 60; sleep 60'"})
	s.begun("up")
	if got := interrupt("main"); got != true {
		t.Errorf("a busy one: %v", got)
	}
	if f, body := c.receive(); asResult(t, f, body).code != 137 {
		t.Errorf("got %v", f)
	}
	v := s.attachShell(fields{"name": "main"})
	v.shows(prompt)
	if got := interrupt("main"); got != false {
		t.Errorf("one at its prompt: %v", got)
	}
	v.key("touch typed; sleep 60\r")
	s.begun("typed")
	if got := interrupt("main"); got != true {
		t.Errorf("one in which a person runs something: %v", got)
	}
	v.shows(prompt)
	if got := c.exec("echo $A"); got.out != "kept\r\n" {
		t.Errorf("afterwards: %+v", got)
	}
}

func TestShIsCancelledToo(t *testing.T) {
	s := startRunner(t, fields{"shell": "sh"})
	c := s.dial()
	c.exec("A=kept")
	c.request("exec", fields{"cmd": "touch up; sleep 60", "key": "it"})
	s.begun("up")
	s.dial().call("exec.cancel", fields{"key": "it"})
	f, body := c.receive()
	if got := asResult(t, f, body); got.code != 130 || got.exited {
		t.Errorf("got %+v", got)
	}
	if got := c.exec("echo $A"); got.out != "kept\r\n" {
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
			c := startRunner(t, fields{"shell": "sh"}).dial()
			c.exec("A=kept")
			if got := c.exec(cmd, fields{"timeout_ms": 300}); !got.timedOut || got.exited {
				t.Errorf("got %+v", got)
			}
			if got := c.exec("ls ~/late 2>/dev/null; echo $A"); got.out != "kept\r\n" {
				t.Errorf("afterwards: %+v", got)
			}
		})
	}
}
