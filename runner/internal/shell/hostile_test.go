package shell

import (
	"strings"
	"testing"
	"time"

	"sandglass/runner/internal/runnertest"
	"sandglass/runner/internal/wire"
)

// toEveryPipe runs a script that writes to each private pipe of its shell and keeps the pipes open. The shell belongs to
// the same user, so its descriptors can be opened through /proc, or taken with pidfd_getfd. The command never ends.
func toEveryPipe(script string) string {
	return "cat >script <<'E'\n" + script + "\nE\n" +
		"for fd in /proc/$$/fd/*; do case $(readlink $fd) in pipe:*) setsid timeout 40 bash script <>$fd >&0 2>/dev/null & ;; esac; done\n" +
		"trap '' INT; while :; do sleep 1; done"
}

func TestForgedReportsStopNeitherTheTimeoutNorOtherRequests(t *testing.T) {
	s := runnertest.Start(t, nil)
	c, other := s.Dial(), s.Dial()
	started := time.Now()
	c.Request("exec", wire.Fields{"cmd": toEveryPipe(`while printf '0 0 0 /\n\0'; do :; done`), "timeout_ms": 1500})
	runnertest.Eventually(t, "the shell is listed as busy", func() bool {
		f, _ := other.Call("shell.list", nil)
		list, _ := f["shells"].([]any)
		return len(list) == 1 && list[0].(map[string]any)["busy"] == true
	})
	if f, body := c.Receive(); !runnertest.AsResult(t, f, body).TimedOut {
		t.Errorf("got %v", f)
	}
	if took := time.Since(started); took > 15*time.Second {
		t.Errorf("the timeout took %v", took)
	}
	if f, _ := other.Call("shell.list", nil); f["shells"] == nil {
		t.Errorf("list: %v", f)
	}
	if got := other.Exec("echo fresh", wire.Fields{"shell": "second"}); got.Out != "fresh\r\n" {
		t.Errorf("got %+v", got)
	}
}

func TestReportsBeforeAShellIsReadyDoNotStopIt(t *testing.T) {
	s := runnertest.Start(t, nil)
	c := s.Dial()
	c.Exec(`cat >.bash_profile <<'E'
for fd in /proc/$$/fd/*; do case $(readlink $fd) in pipe:*) (for i in {1..50}; do printf '0 0 0 /\n\0'; done) >$fd 2>/dev/null;; esac; done
E
exit`)
	c.Request("exec", wire.Fields{"cmd": "echo begun", "timeout_ms": 2000})
	f, _ := s.Dial().Call("shell.list", nil)
	if f["shells"] == nil {
		t.Errorf("list: %v", f)
	}
	if f, _ := c.Receive(); f == nil {
		t.Error("no answer")
	}
}

func TestAReportWithoutAnEndKillsTheShell(t *testing.T) {
	s := runnertest.Start(t, nil)
	c := s.Dial()
	if got := c.Exec(toEveryPipe("head -c 200000 /dev/zero | tr '\\0' x"), wire.Fields{"timeout_ms": 20000}); !got.Exited || got.TimedOut {
		t.Errorf("got %+v", got)
	}
	if got := c.Exec("echo fresh"); got.Out != "fresh\r\n" {
		t.Errorf("got %+v", got)
	}
}

func TestAFullTerminalDoesNotStopTheNextExec(t *testing.T) {
	s := runnertest.Start(t, nil)
	c := s.Dial()
	c.Exec("PS1='" + runnertest.Prompt + "'")
	v := s.AttachShell(wire.Fields{"name": "main"})
	v.Shows(runnertest.Prompt)
	// The shell itself is in the foreground and reads nothing, and its terminal is not in line mode.
	v.Key("stty -icanon -echo; while :; do :; done\r")
	v.Shows("done\r\n")
	v.Key(strings.Repeat("x", 100<<10))
	got := s.Dial().Exec("echo next", wire.Fields{"timeout_ms": 20000})
	if got.Out != "next\r\n" {
		t.Errorf("got %+v", got)
	}
}

func TestAProcessEndsWhileADescendantWritesOn(t *testing.T) {
	s := runnertest.Start(t, nil)
	c := s.Dial()
	pid := c.Start(wire.Fields{"argv": runnertest.Sh("cat /dev/zero & cat /dev/zero & exit 3")})
	a := s.Dial()
	a.Request("process.attach", wire.Fields{"pid": pid})
	for {
		f, _ := a.Receive()
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
