package main

import (
	"fmt"
	"strings"
	"sync"
	"testing"
)

// A screen collects what an attached terminal shows.
type screen struct {
	c    *client
	mu   sync.Mutex
	text string
	exit fields
}

func (s *sandbox) attachShell(args fields) *screen {
	s.t.Helper()
	c := s.dial()
	if f, _ := c.call("shell.attach", args); f["shell"] == nil {
		s.t.Fatalf("attach: %v", f)
	}
	v := &screen{c: c}
	go func() {
		for {
			f, body := c.receive()
			v.mu.Lock()
			v.text += string(body)
			if f == nil || f["type"] == "exit" {
				v.exit = f
				v.mu.Unlock()
				return
			}
			v.mu.Unlock()
		}
	}()
	return v
}

func (v *screen) key(text string) { v.c.send(fields{"type": "stdin"}, []byte(text)) }

// shows waits until the screen has shown the text, and forgets everything up to it.
func (v *screen) shows(text string) {
	v.c.t.Helper()
	eventually(v.c.t, fmt.Sprintf("the screen shows %q", text), func() bool {
		v.mu.Lock()
		defer v.mu.Unlock()
		_, rest, found := strings.Cut(v.text, text)
		if found {
			v.text = rest
		}
		return found
	})
}

const prompt = "ready> "

func TestATerminalAndExecShareAShell(t *testing.T) {
	s := startRunner(t, nil)
	c := s.dial()
	c.exec("PS1='" + prompt + "'; A=1")
	v := s.attachShell(fields{"name": "main", "cols": 100, "rows": 30})
	v.shows(prompt)
	v.key("stty size; echo $A; A=2\r")
	v.shows("30 100\r\n1\r\n")
	v.shows(prompt)
	if got := c.exec("echo from exec $A; A=3"); got.out != "from exec 2\r\n" {
		t.Errorf("exec at the prompt: %+v", got)
	}
	v.shows("from exec 2\r\n")
	v.shows(prompt)
	v.key("echo $A half a line")
	v.shows("half a line")
	if got := c.exec("echo clean"); got.out != "clean\r\n" {
		t.Errorf("exec over a typed line: %+v", got)
	}
	v.shows(prompt)
	v.key("echo $A\r")
	v.shows("3\r\n")
}

func TestExecWaitsForAProgramAtThePrompt(t *testing.T) {
	s := startRunner(t, nil)
	s.dial().exec("PS1='" + prompt + "'")
	v := s.attachShell(fields{"name": "main"})
	v.shows(prompt)
	v.key("until test -e go; do sleep 0.02; done; echo typed\r")
	v.shows("echo typed\r\n")
	c := s.dial()
	c.request("exec", fields{"cmd": "echo second", "timeout_ms": 1000})
	s.dial().exec("touch go", fields{"shell": "other"})
	if f, body := c.receive(); string(body) != "second\r\n" {
		t.Errorf("got %v %q", f, body)
	}
	v.shows("typed\r\n")
	v.shows("second\r\n")
}

func TestExecAfterTheTerminalHasGone(t *testing.T) {
	s := startRunner(t, nil)
	c := s.dial()
	c.exec("PS1='" + prompt + "'")
	for i := 0; i < 5; i++ {
		v := s.attachShell(fields{"name": "main"})
		v.shows(prompt)
		v.key("echo not sent")
		v.shows("not sent")
		v.c.conn.Close()
		eventually(t, "nobody is attached", func() bool {
			f, _ := c.call("shell.list", nil)
			return f["shells"].([]any)[0].(map[string]any)["attached"] == 0.0
		})
		for j := 0; j < 3; j++ {
			want := fmt.Sprintf("%d %d\r\n", i, j)
			if got := c.exec(fmt.Sprintf("echo %d %d", i, j)); got.out != want {
				t.Errorf("got %+v", got)
			}
		}
	}
}

func TestAnUnfinishedLineOrABrokenDriverAtThePromptDoesNotStopExec(t *testing.T) {
	for _, keys := range []string{"for x in\r", "cat <<E\r", "set -o vi\recho abc\x1b", "\x12search", "PROMPT_COMMAND='A=1'\r\r", "unset PROMPT_COMMAND\r\r", "bind -r '\\e[9241~'\r"} {
		keys := keys
		t.Run(fmt.Sprintf("%q", keys), func(t *testing.T) {
			t.Parallel()
			s := startRunner(t, nil)
			c := s.dial()
			c.exec("PS1='" + prompt + "'; B=kept")
			v := s.attachShell(fields{"name": "main"})
			v.shows(prompt)
			v.key(keys)
			v.shows(keys[1:4])
			if got := c.exec("echo $B"); got.out != "kept\r\n" {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestATerminalSeesTheRecentScreenAndTheEnd(t *testing.T) {
	s := startRunner(t, nil)
	c := s.dial()
	c.exec("echo earlier")
	v := s.attachShell(fields{"name": "main"})
	v.shows("earlier\r\n")
	v.key("exit 7\r")
	eventually(t, "the exit arrives", func() bool {
		v.mu.Lock()
		defer v.mu.Unlock()
		return v.exit != nil
	})
	if v.exit["exit_code"] != 7.0 {
		t.Errorf("got %v", v.exit)
	}
}

func TestAnInterruptFromTheKeyboardReachesTheCommand(t *testing.T) {
	s := startRunner(t, nil)
	c := s.dial()
	v := s.attachShell(fields{"name": "main"})
	c.request("exec", fields{"cmd": "sh -c 'echo begun; exec sleep 60'"})
	v.shows("begun")
	v.key("\x03")
	if f, _ := c.receive(); f["exit_code"] != 130.0 || f["timed_out"] != false {
		t.Errorf("got %v", f)
	}
}

func TestATerminalOnShGetsAnShBesideIt(t *testing.T) {
	s := startRunner(t, fields{"shell": "sh"})
	c := s.dial()
	c.exec("cd /usr")
	v := s.attachShell(fields{"name": "main", "cols": 70, "rows": 20})
	v.key("pwd; stty size\n")
	v.shows("/usr\r\n20 70\r\n")
	if got := c.exec("echo meanwhile"); got.out != "meanwhile\r\n" {
		t.Errorf("got %+v", got)
	}
	v.key("exit 4\n")
	eventually(t, "the exit arrives", func() bool {
		v.mu.Lock()
		defer v.mu.Unlock()
		return v.exit != nil
	})
	if v.exit["exit_code"] != 4.0 {
		t.Errorf("got %v", v.exit)
	}
}
