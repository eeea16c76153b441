package main

import (
	"fmt"
	"strings"
	"testing"
)

func TestAChosenPathOutlastsTheProfile(t *testing.T) {
	for _, shell := range []string{"", "sh"} {
		s := startRunner(t, fields{"env": fields{"PATH": "/opt/it's here:/usr/bin:/bin"}, "shell": shell})
		c := s.dial()
		if got := c.exec(`printf %s "$PATH"`); got.out != "/opt/it's here:/usr/bin:/bin" {
			t.Errorf("%q: %+v", shell, got)
		}
		c.call("shell.create", fields{"name": "own", "env": fields{"PATH": "/own:/bin"}})
		if got := c.exec(`printf %s "$PATH"`, fields{"shell": "own"}); got.out != "/own:/bin" {
			t.Errorf("%q: %+v", shell, got)
		}
	}
	// Nobody chose one: the profile's stands.
	c := startRunner(t, nil).dial()
	if got := c.exec(`. /etc/profile; [ "$PATH" ] && echo set`); !strings.HasPrefix(got.out, "set") {
		t.Errorf("%+v", got)
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
	if got := c.exec("pwd; echo $A; stty size <&1", fields{"shell": "two"}); got.out != "/usr\r\n1\r\n20 90\r\n" {
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

func TestJobsAreThoseThatRun(t *testing.T) {
	c := startRunner(t, nil).dial()
	c.exec("sleep 100 & true & while kill -0 $! 2>/dev/null; do sleep 0.01; done; /bin/true; /bin/echo")
	if got := c.exec("jobs; kill %1"); strings.Count(got.out, "\n") != 1 || !strings.Contains(got.out, "sleep 100") {
		t.Errorf("got %+v", got)
	}
	c.exec("(sleep 0.1; exit 7) & waited=$!; sleep 0.3")
	if got := c.exec("wait $waited; echo $?"); got.out != "7\r\n" {
		t.Errorf("got %+v", got)
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
