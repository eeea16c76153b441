package main

import (
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
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
	c.request("exec", fields{"cmd": "echo begun; sleep 60"})
	v.shows("begun")
	v.key("\x03")
	if f, _ := c.receive(); f["exit_code"] != 130.0 || f["timed_out"] != false {
		t.Errorf("got %v", f)
	}
}

func TestShellsAreListedAndRemoved(t *testing.T) {
	s := startRunner(t, fields{"max_shells": 3})
	c := s.dial()
	f, _ := c.call("shell.create", fields{"name": "two", "cwd": "/usr", "env": fields{"A": "1"}, "cols": 90, "rows": 20})
	made := f["shell"].(map[string]any)
	if made["cwd"] != "/usr" || made["program"] != "bash" || made["busy"] != false || made["user"] != "sandbox" {
		t.Errorf("made %v", f)
	}
	if f, _ := c.call("shell.create", fields{"name": "two"}); f["code"] != codeShellExists {
		t.Errorf("made twice: %v", f)
	}
	if got := c.exec("pwd; echo $A; stty size", fields{"shell": "two"}); got.out != "/usr\r\n1\r\n20 90\r\n" {
		t.Errorf("got %+v", got)
	}
	c.exec("nohup sleep 61 >/dev/null 2>&1 & (trap '' HUP; sleep 62) & :", fields{"shell": "two"})
	c.request("exec", fields{"cmd": "touch " + s.dir + "/busy; sleep 60", "shell": "two"})
	other := s.dial()
	eventually(t, "it is busy", func() bool { return other.exec("test -e busy").code == 0 })
	f, _ = other.call("shell.list", nil)
	if list := fmt.Sprint(f["shells"]); !strings.Contains(list, "name:main") || !strings.Contains(list, "busy:true") {
		t.Errorf("list: %v", list)
	}
	if f, _ := other.call("shell.remove", fields{"name": "two"}); f["ok"] != true {
		t.Errorf("remove: %v", f)
	}
	if f, body := c.receive(); !asResult(t, f, body).exited {
		t.Errorf("the command that ran: %v", f)
	}
	if left := sessionProcesses(int(made["pid"].(float64))); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if f, _ := other.call("shell.remove", fields{"name": "two"}); f["code"] != codeShellNotFound {
		t.Errorf("removed twice: %v", f)
	}
	for _, name := range []string{"a", "b"} {
		c.exec(":", fields{"shell": name})
	}
	if got := c.exec(":", fields{"shell": "c"}); got.failure != codeInvalidRequest {
		t.Errorf("one shell too many: %+v", got)
	}
}

func TestAProfileIsHonoured(t *testing.T) {
	s := startRunner(t, nil)
	c := s.dial()
	c.exec("echo 'echo welcome; export FROM=profile; PROMPT_COMMAND=\"echo never\"; alias hi=\"echo hello\"' > .bash_profile; exit")
	if got := c.exec("echo $FROM; hi 2>&1"); got.out != "profile\r\nhello\r\n" {
		t.Errorf("got %+v", got)
	}
}

func TestAProfileThatEndsTheShellIsAnError(t *testing.T) {
	s := startRunner(t, nil)
	c := s.dial()
	c.exec("echo 'exit 3' > .bash_profile; exit")
	if got := c.exec("echo"); got.failure != codeShellExited {
		t.Errorf("got %+v", got)
	}
}

func TestShutdownEndsEverything(t *testing.T) {
	for _, by := range []string{"request", "signal"} {
		by := by
		t.Run("by "+by, func(t *testing.T) {
			t.Parallel()
			s := startRunner(t, nil)
			c := s.dial()
			stubborn := c.start(fields{"argv": sh("trap '' TERM; while :; do sleep 0.1; done")})
			c.exec("sleep 61 & (setsid sleep 62 &)")
			started := time.Now()
			if by == "request" {
				if f, _ := c.call("shutdown", fields{"grace_ms": 200}); f["ok"] != true {
					t.Errorf("got %v", f)
				}
			} else {
				s.cmd.Process.Signal(syscall.SIGTERM)
			}
			if err := s.cmd.Wait(); err != nil {
				t.Errorf("the runner ended with %v", err)
			}
			if took := time.Since(started); took > 8*time.Second {
				t.Errorf("took %v", took)
			}
			if _, ok := readStat(stubborn); ok {
				t.Error("a process is left behind")
			}
		})
	}
}

func TestOrphansAreReaped(t *testing.T) {
	s := startRunner(t, nil)
	c := s.dial()
	pid := strings.TrimSpace(c.exec("sh -c 'sh -c \"sleep 0.05\" & echo $!'").out)
	eventually(t, "the orphan is gone", func() bool {
		var n int
		fmt.Sscan(pid, &n)
		_, ok := readStat(n)
		return !ok
	})
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

func TestAShellThatDiedIdleIsReplaced(t *testing.T) {
	s := startRunner(t, nil)
	c := s.dial()
	for i := 0; i < 20; i++ {
		pid := strings.TrimSpace(c.exec("echo $$").out)
		s.dial().start(fields{"argv": []string{"kill", "-9", pid}})
		if got := c.exec("echo here"); got.out != "here\r\n" && !got.exited {
			t.Errorf("got %+v", got)
		}
	}
}

func TestAWarmShellIsThereBeforeTheFirstCommand(t *testing.T) {
	c := startRunner(t, fields{"warm_shell": true}).dial()
	eventually(t, "the shell is listed", func() bool {
		f, _ := c.call("shell.list", nil)
		list, _ := f["shells"].([]any)
		return len(list) == 1
	})
	if _, body := c.call("exec", fields{"cmd": "echo ready"}); !strings.Contains(string(body), "ready") {
		t.Fatalf("output %q", body)
	}
}
