package shell

import (
	"fmt"
	"strings"
	"testing"

	"sandglass/runner/internal/procfs"
	"sandglass/runner/internal/runnertest"
	"sandglass/runner/internal/wire"
)

func TestAChosenPathOutlastsTheProfile(t *testing.T) {
	for _, shell := range []string{"", "sh"} {
		s := runnertest.Start(t, wire.Fields{"env": wire.Fields{"PATH": "/opt/it's here:/usr/bin:/bin"}, "shell": shell})
		c := s.Dial()
		if got := c.Exec(`printf %s "$PATH"`); got.Out != "/opt/it's here:/usr/bin:/bin" {
			t.Errorf("%q: %+v", shell, got)
		}
		c.Call("shell.create", wire.Fields{"name": "own", "env": wire.Fields{"PATH": "/own:/bin"}})
		if got := c.Exec(`printf %s "$PATH"`, wire.Fields{"shell": "own"}); got.Out != "/own:/bin" {
			t.Errorf("%q: %+v", shell, got)
		}
	}
	// No PATH was chosen: that of the profile is used.
	c := runnertest.Start(t, nil).Dial()
	if got := c.Exec(`. /etc/profile; [ "$PATH" ] && echo set`); !strings.HasPrefix(got.Out, "set") {
		t.Errorf("%+v", got)
	}
}

func TestShellsAreListedAndRemoved(t *testing.T) {
	s := runnertest.Start(t, wire.Fields{"max_shells": 3})
	c := s.Dial()
	f, _ := c.Call("shell.create", wire.Fields{"name": "two", "cwd": "/usr", "env": wire.Fields{"A": "1"}, "cols": 90, "rows": 20})
	made := f["shell"].(map[string]any)
	if made["cwd"] != "/usr" || made["program"] != "bash" || made["busy"] != false || made["user"] != "sandbox" {
		t.Errorf("made %v", f)
	}
	if f, _ := c.Call("shell.create", wire.Fields{"name": "two"}); f["code"] != wire.CodeShellExists {
		t.Errorf("made twice: %v", f)
	}
	if got := c.Exec("pwd; echo $A; stty size <&1", wire.Fields{"shell": "two"}); got.Out != "/usr\r\n1\r\n20 90\r\n" {
		t.Errorf("got %+v", got)
	}
	c.Exec("nohup sleep 61 >/dev/null 2>&1 & (trap '' HUP; sleep 62) & :", wire.Fields{"shell": "two"})
	c.Request("exec", wire.Fields{"cmd": "touch " + s.Dir + "/busy; sleep 60", "shell": "two"})
	other := s.Dial()
	runnertest.Eventually(t, "it is busy", func() bool { return other.Exec("test -e busy").Code == 0 })
	f, _ = other.Call("shell.list", nil)
	if list := fmt.Sprint(f["shells"]); !strings.Contains(list, "name:main") || !strings.Contains(list, "busy:true") {
		t.Errorf("list: %v", list)
	}
	if f, _ := other.Call("shell.remove", wire.Fields{"name": "two"}); f["ok"] != true {
		t.Errorf("remove: %v", f)
	}
	if f, body := c.Receive(); !runnertest.AsResult(t, f, body).Exited {
		t.Errorf("the command that ran: %v", f)
	}
	if left := procfs.InSession(int(made["pid"].(float64))); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if f, _ := other.Call("shell.remove", wire.Fields{"name": "two"}); f["code"] != wire.CodeShellNotFound {
		t.Errorf("removed twice: %v", f)
	}
	for _, name := range []string{"a", "b"} {
		c.Exec(":", wire.Fields{"shell": name})
	}
	if got := c.Exec(":", wire.Fields{"shell": "c"}); got.Failure != wire.CodeInvalidRequest {
		t.Errorf("one shell too many: %+v", got)
	}
}

func TestAProfileIsHonoured(t *testing.T) {
	s := runnertest.Start(t, nil)
	c := s.Dial()
	c.Exec("echo 'echo welcome; export FROM=profile; PROMPT_COMMAND=\"echo never\"; alias hi=\"echo hello\"' > .bash_profile; exit")
	if got := c.Exec("echo $FROM; hi 2>&1"); got.Out != "profile\r\nhello\r\n" {
		t.Errorf("got %+v", got)
	}
}

func TestAProfileThatEndsTheShellIsAnError(t *testing.T) {
	s := runnertest.Start(t, nil)
	c := s.Dial()
	c.Exec("echo 'exit 3' > .bash_profile; exit")
	if got := c.Exec("echo"); got.Failure != wire.CodeShellExited {
		t.Errorf("got %+v", got)
	}
}

func TestAShellThatDiedIdleIsReplaced(t *testing.T) {
	s := runnertest.Start(t, nil)
	c := s.Dial()
	for i := 0; i < 20; i++ {
		pid := strings.TrimSpace(c.Exec("echo $$").Out)
		s.Dial().Start(wire.Fields{"argv": []string{"kill", "-9", pid}})
		if got := c.Exec("echo here"); got.Out != "here\r\n" && !got.Exited {
			t.Errorf("got %+v", got)
		}
	}
}

func TestJobsAreThoseThatRun(t *testing.T) {
	c := runnertest.Start(t, nil).Dial()
	c.Exec("sleep 100 & true & while kill -0 $! 2>/dev/null; do sleep 0.01; done; /bin/true; /bin/echo")
	if got := c.Exec("jobs; kill %1"); strings.Count(got.Out, "\n") != 1 || !strings.Contains(got.Out, "sleep 100") {
		t.Errorf("got %+v", got)
	}
	c.Exec("(sleep 0.1; exit 7) & waited=$!; sleep 0.3")
	if got := c.Exec("wait $waited; echo $?"); got.Out != "7\r\n" {
		t.Errorf("got %+v", got)
	}
}

func TestAWarmShellIsThereBeforeTheFirstCommand(t *testing.T) {
	c := runnertest.Start(t, wire.Fields{"warm_shell": true}).Dial()
	runnertest.Eventually(t, "the shell is listed", func() bool {
		f, _ := c.Call("shell.list", nil)
		list, _ := f["shells"].([]any)
		return len(list) == 1
	})
	if _, body := c.Call("exec", wire.Fields{"cmd": "echo ready"}); !strings.Contains(string(body), "ready") {
		t.Fatalf("output %q", body)
	}
}
