package shell

import (
	"fmt"
	"testing"

	"sandglass/runner/internal/runnertest"
	"sandglass/runner/internal/wire"
)

func TestATerminalThatAttachesAgainIsNotAskedAgain(t *testing.T) {
	s := runnertest.Start(t, nil)
	s.Dial().Exec("PS1='" + runnertest.Prompt + "'")
	first := s.AttachShell(wire.Fields{"name": "main"})
	first.Shows(runnertest.Prompt)
	first.Key("printf 'one" + runnertest.PrintedQueries + "two\\n'\r")
	first.Shows("one" + runnertest.Queries + "two") // live, unchanged
	first.Shows(runnertest.Prompt)
	first.C.Conn.Close()
	again := s.AttachShell(wire.Fields{"name": "main"})
	again.Shows("onetwo")
	again.Key("printf 'three" + runnertest.PrintedQueries + "four\\n'\r")
	again.Shows("three" + runnertest.Queries + "four")
}

func TestATerminalAndExecShareAShell(t *testing.T) {
	s := runnertest.Start(t, nil)
	c := s.Dial()
	c.Exec("PS1='" + runnertest.Prompt + "'; A=1")
	v := s.AttachShell(wire.Fields{"name": "main", "cols": 100, "rows": 30})
	v.Shows(runnertest.Prompt)
	v.Key("stty size; echo $A; A=2\r")
	v.Shows("30 100\r\n1\r\n")
	v.Shows(runnertest.Prompt)
	if got := c.Exec("echo from exec $A; A=3"); got.Out != "from exec 2\r\n" {
		t.Errorf("exec at the prompt: %+v", got)
	}
	v.Shows("from exec 2\r\n")
	v.Shows(runnertest.Prompt)
	v.Key("echo $A half a line")
	v.Shows("half a line")
	if got := c.Exec("echo clean"); got.Out != "clean\r\n" {
		t.Errorf("exec over a typed line: %+v", got)
	}
	v.Shows(runnertest.Prompt)
	v.Key("echo $A\r")
	v.Shows("3\r\n")
}

func TestExecWaitsForAProgramAtThePrompt(t *testing.T) {
	s := runnertest.Start(t, nil)
	s.Dial().Exec("PS1='" + runnertest.Prompt + "'")
	v := s.AttachShell(wire.Fields{"name": "main"})
	v.Shows(runnertest.Prompt)
	v.Key("until test -e go; do sleep 0.02; done; echo typed\r")
	v.Shows("echo typed\r\n")
	c := s.Dial()
	c.Request("exec", wire.Fields{"cmd": "echo second", "timeout_ms": 20000})
	s.Dial().Exec("touch go", wire.Fields{"shell": "other"})
	if f, body := c.Receive(); string(body) != "second\r\n" {
		t.Errorf("got %v %q", f, body)
	}
	v.Shows("typed\r\n")
	v.Shows("second\r\n")
}

func TestExecAfterTheTerminalHasGone(t *testing.T) {
	s := runnertest.Start(t, nil)
	c := s.Dial()
	c.Exec("PS1='" + runnertest.Prompt + "'")
	for i := 0; i < 5; i++ {
		v := s.AttachShell(wire.Fields{"name": "main"})
		v.Shows(runnertest.Prompt)
		v.Key("echo not sent")
		v.Shows("not sent")
		v.C.Conn.Close()
		runnertest.Eventually(t, "nobody is attached", func() bool {
			f, _ := c.Call("shell.list", nil)
			return f["shells"].([]any)[0].(map[string]any)["attached"] == 0.0
		})
		for j := 0; j < 3; j++ {
			want := fmt.Sprintf("%d %d\r\n", i, j)
			if got := c.Exec(fmt.Sprintf("echo %d %d", i, j)); got.Out != want {
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
			s := runnertest.Start(t, nil)
			c := s.Dial()
			c.Exec("PS1='" + runnertest.Prompt + "'; B=kept")
			v := s.AttachShell(wire.Fields{"name": "main"})
			v.Shows(runnertest.Prompt)
			v.Key(keys)
			v.Shows(keys[1:4])
			if got := c.Exec("echo $B"); got.Out != "kept\r\n" {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestATerminalSeesTheRecentScreenAndTheEnd(t *testing.T) {
	s := runnertest.Start(t, nil)
	c := s.Dial()
	c.Exec("echo earlier")
	v := s.AttachShell(wire.Fields{"name": "main"})
	v.Shows("earlier\r\n")
	v.Key("exit 7\r")
	runnertest.Eventually(t, "the exit arrives", func() bool {
		v.Mu.Lock()
		defer v.Mu.Unlock()
		return v.Exit != nil
	})
	if v.Exit["exit_code"] != 7.0 {
		t.Errorf("got %v", v.Exit)
	}
}

func TestAnInterruptFromTheKeyboardReachesTheCommand(t *testing.T) {
	s := runnertest.Start(t, nil)
	c := s.Dial()
	v := s.AttachShell(wire.Fields{"name": "main"})
	c.Request("exec", wire.Fields{"cmd": "sh -c 'echo begun; exec sleep 60'"})
	v.Shows("begun")
	v.Key("\x03")
	if f, _ := c.Receive(); f["exit_code"] != 130.0 || f["timed_out"] != false {
		t.Errorf("got %v", f)
	}
}

func TestATerminalOnShGetsAnShBesideIt(t *testing.T) {
	s := runnertest.Start(t, wire.Fields{"shell": "sh"})
	c := s.Dial()
	c.Exec("cd /usr")
	v := s.AttachShell(wire.Fields{"name": "main", "cols": 70, "rows": 20})
	v.Key("pwd; stty size\n")
	v.Shows("/usr\r\n20 70\r\n")
	if got := c.Exec("echo meanwhile"); got.Out != "meanwhile\r\n" {
		t.Errorf("got %+v", got)
	}
	v.Key("exit 4\n")
	runnertest.Eventually(t, "the exit arrives", func() bool {
		v.Mu.Lock()
		defer v.Mu.Unlock()
		return v.Exit != nil
	})
	if v.Exit["exit_code"] != 4.0 {
		t.Errorf("got %v", v.Exit)
	}
}
