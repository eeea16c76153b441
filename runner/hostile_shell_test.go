package main

import (
	"strings"
	"testing"
	"time"
)

// toEveryPipe runs a script whose output goes to each private pipe of the shell it runs in, and which keeps those pipes
// open. The shell belongs to the same user, so its descriptors can be opened through /proc, or taken with pidfd_getfd.
// The command never comes back by itself.
func toEveryPipe(script string) string {
	return "cat >script <<'E'\n" + script + "\nE\n" +
		"for fd in /proc/$$/fd/*; do case $(readlink $fd) in pipe:*) setsid timeout 40 bash script <>$fd >&0 2>/dev/null & ;; esac; done\n" +
		"trap '' INT; while :; do sleep 1; done"
}

func TestForgedReportsStopNeitherTheTimeoutNorOtherRequests(t *testing.T) {
	s := startRunner(t, nil)
	c, other := s.dial(), s.dial()
	started := time.Now()
	c.request("exec", fields{"cmd": toEveryPipe(`while printf '0 0 0 /\n\0'; do :; done`), "timeout_ms": 1500})
	eventually(t, "the shell is listed as busy", func() bool {
		f, _ := other.call("shell.list", nil)
		list, _ := f["shells"].([]any)
		return len(list) == 1 && list[0].(map[string]any)["busy"] == true
	})
	if f, body := c.receive(); !asResult(t, f, body).timedOut {
		t.Errorf("got %v", f)
	}
	if took := time.Since(started); took > 15*time.Second {
		t.Errorf("the timeout took %v", took)
	}
	if f, _ := other.call("shell.list", nil); f["shells"] == nil {
		t.Errorf("list: %v", f)
	}
	if got := other.exec("echo fresh", fields{"shell": "second"}); got.out != "fresh\r\n" {
		t.Errorf("got %+v", got)
	}
}

func TestReportsBeforeAShellIsReadyDoNotStopIt(t *testing.T) {
	s := startRunner(t, nil)
	c := s.dial()
	c.exec(`cat >.bash_profile <<'E'
for fd in /proc/$$/fd/*; do case $(readlink $fd) in pipe:*) (for i in {1..50}; do printf '0 0 0 /\n\0'; done) >$fd 2>/dev/null;; esac; done
E
exit`)
	c.request("exec", fields{"cmd": "echo begun", "timeout_ms": 2000})
	f, _ := s.dial().call("shell.list", nil)
	if f["shells"] == nil {
		t.Errorf("list: %v", f)
	}
	if f, _ := c.receive(); f == nil {
		t.Error("no answer")
	}
}

func TestAReportWithoutAnEndKillsTheShell(t *testing.T) {
	s := startRunner(t, nil)
	c := s.dial()
	if got := c.exec(toEveryPipe("head -c 200000 /dev/zero | tr '\\0' x"), fields{"timeout_ms": 20000}); !got.exited || got.timedOut {
		t.Errorf("got %+v", got)
	}
	if got := c.exec("echo fresh"); got.out != "fresh\r\n" {
		t.Errorf("got %+v", got)
	}
}

func TestAFullTerminalDoesNotStopTheNextExec(t *testing.T) {
	s := startRunner(t, nil)
	c := s.dial()
	c.exec("PS1='" + prompt + "'")
	v := s.attachShell(fields{"name": "main"})
	v.shows(prompt)
	// The shell itself is in the foreground, reads nothing, and its terminal collects no lines.
	v.key("stty -icanon -echo; while :; do :; done\r")
	v.shows("done\r\n")
	v.key(strings.Repeat("x", 100<<10))
	got := s.dial().exec("echo next", fields{"timeout_ms": 5000})
	if got.out != "next\r\n" {
		t.Errorf("got %+v", got)
	}
}

func TestAProcessEndsWhileADescendantWritesOn(t *testing.T) {
	s := startRunner(t, nil)
	c := s.dial()
	pid := c.start(fields{"argv": sh("cat /dev/zero & cat /dev/zero & exit 3")})
	a := s.dial()
	a.request("process.attach", fields{"pid": pid})
	for {
		f, _ := a.receive()
		if f == nil {
			t.Fatal("no exit arrived")
		}
		if f["type"] == "exit" {
			if f["exit_code"] != 3.0 {
				t.Errorf("got %v", f)
			}
			return
		}
	}
}
