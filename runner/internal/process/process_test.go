package process

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"sandglass/runner/internal/runnertest"
	"sandglass/runner/internal/wire"
)

func TestAProcessHasStreamsOfItsOwn(t *testing.T) {
	s := runnertest.Start(t, nil)
	c := s.Dial()
	pid := c.Start(wire.Fields{"argv": runnertest.Sh("echo out; echo err >&2; cat; exit 5"), "stdin": true, "tag": "mine", "env": wire.Fields{"A": "b"}, "cwd": "/usr"})
	a := s.Attach(pid, nil)
	a.Send(wire.Fields{"type": "stdin"}, []byte("typed\n"))
	a.Send(wire.Fields{"type": "stdin_eof"}, nil)
	stdout, stderr, exit := a.Finish()
	if stdout != "out\ntyped\n" || stderr != "err\n" || exit["exit_code"] != 5.0 || exit["timed_out"] != false {
		t.Errorf("got %q, %q, %v", stdout, stderr, exit)
	}
	p := c.Process(pid)
	if p["running"] != false || p["exit_code"] != 5.0 || p["tag"] != "mine" || p["cwd"] != "/usr" || p["ended_at_ms"] == nil {
		t.Errorf("afterwards %v", p)
	}
	if stdout, _, _ := s.Attach(pid, wire.Fields{"stdout_from": 4}).Finish(); stdout != "typed\n" {
		t.Errorf("from byte 4 on: %q", stdout)
	}
}

func TestTheEnvironmentOfAProcess(t *testing.T) {
	s := runnertest.Start(t, wire.Fields{"env": wire.Fields{"CONFIGURED": "1", "BOTH": "config"}})
	pid := s.Dial().Start(wire.Fields{"argv": runnertest.Sh("env; pwd; umask; ulimit -c; cat /proc/self/oom_score_adj; ls /proc/self/fd | wc -l"), "env": wire.Fields{"ASKED": "2", "BOTH": "request"}})
	out, _, _ := s.Attach(pid, nil).Finish()
	for _, want := range []string{"CONFIGURED=1\n", "ASKED=2\n", "BOTH=request\n", "HOME=" + s.Dir + "\n", "USER=sandbox\n", "LOGNAME=sandbox\n", "TERM=xterm-256color\n", "LANG=C.UTF-8\n", "\n" + s.Dir + "\n0022\n0\n500\n4\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in %q", want, out)
		}
	}
}

func TestAProcessOnATerminal(t *testing.T) {
	s := runnertest.Start(t, nil)
	pid := s.Dial().Start(wire.Fields{"argv": runnertest.Sh("stty size; tty >/dev/null && echo yes; read x; stty size; echo got $x; read y"), "tty": wire.Fields{"cols": 81, "rows": 25}})
	a := s.Attach(pid, nil)
	a.Send(wire.Fields{"type": "resize", "cols": 90, "rows": 30}, nil)
	a.Send(wire.Fields{"type": "stdin"}, []byte("abc\n"))
	a.Send(wire.Fields{"type": "stdin_eof"}, nil)
	out, _, exit := a.Finish()
	if !strings.Contains(out, "yes\r\n") || !strings.Contains(out, "30 90\r\ngot abc\r\n") || exit["exit_code"] != 1.0 {
		t.Errorf("got %q, %v", out, exit)
	}
}

func TestSignalsReachTheProcessOrItsGroup(t *testing.T) {
	s := runnertest.Start(t, nil)
	c := s.Dial()
	for _, x := range []struct {
		script, signal string
		group          bool
		code           float64
	}{
		{"echo up; sleep 60; :", "TERM", true, 143}, {"trap 'exit 9' USR1; echo up; while :; do sleep 0.01; done", "USR1", false, 9},
		{"echo up; sleep 60; :", "KILL", true, 137},
	} {
		pid := c.Start(wire.Fields{"argv": runnertest.Sh(x.script)})
		a := s.Attach(pid, nil)
		a.Receive()
		if f, _ := c.Call("process.signal", wire.Fields{"pid": pid, "signal": x.signal, "group": x.group}); f["ok"] != true {
			t.Errorf("signal: %v", f)
		}
		if _, _, exit := a.Finish(); exit["exit_code"] != x.code {
			t.Errorf("%s: %v", x.signal, exit)
		}
		runnertest.Eventually(t, "nobody of the group is left to signal", func() bool {
			f, _ := c.Call("process.signal", wire.Fields{"pid": pid, "signal": "CONT"})
			return f["code"] == wire.CodeProcessNotFound
		})
	}
	if f, _ := c.Call("process.signal", wire.Fields{"pid": 1 << 30, "signal": "TERM"}); f["code"] != wire.CodeProcessNotFound {
		t.Errorf("signal to nobody: %v", f)
	}
}

func TestATimeoutEndsTheWholeGroup(t *testing.T) {
	s := runnertest.Start(t, nil)
	pid := s.Dial().Start(wire.Fields{"argv": runnertest.Sh("trap '' TERM; sleep 60 & echo $!; wait; sleep 60"), "timeout_ms": 4000})
	out, _, exit := s.Attach(pid, nil).Finish()
	if exit["exit_code"] != 124.0 || exit["timed_out"] != true {
		t.Errorf("got %v", exit)
	}
	child := strings.TrimSpace(out)
	if child == "" {
		t.Fatal("it said nothing before its timeout")
	}
	runnertest.Eventually(t, "the child is gone", func() bool {
		_, err := os.Stat("/proc/" + child)
		return err != nil
	})
}

func TestWhatCannotStart(t *testing.T) {
	c := runnertest.Start(t, nil).Dial()
	for _, x := range []struct {
		args wire.Fields
		code string
	}{
		{wire.Fields{"argv": []string{"no-such-program"}}, wire.CodeFileNotFound}, {wire.Fields{"argv": []string{"/no/such/program"}}, wire.CodeFileNotFound},
		{wire.Fields{"argv": []string{}}, wire.CodeInvalidRequest}, {wire.Fields{"argv": []string{""}}, wire.CodeInvalidRequest}, {wire.Fields{"argv": []string{"/usr"}}, wire.CodePermissionDenied},
		{wire.Fields{"argv": []string{"true"}, "cwd": "/no/such"}, wire.CodeFileNotFound}, {wire.Fields{"argv": []string{"true"}, "cwd": "/etc/passwd"}, wire.CodeNotADirectory},
		{wire.Fields{"argv": []string{"true"}, "user": "nobody"}, wire.CodeInvalidRequest}, {wire.Fields{"argv": []string{"true"}, "tag": "a b"}, wire.CodeInvalidRequest},
		{wire.Fields{"argv": []string{"a\x00b"}}, wire.CodeInvalidRequest}, {wire.Fields{"argv": []string{"true"}, "tty": wire.Fields{"cols": 5000, "rows": 1}}, wire.CodeInvalidRequest},
	} {
		if f, _ := c.Call("process.start", x.args); f["code"] != x.code {
			t.Errorf("%v: %v", x.args, f)
		}
	}
}

func TestAReaderMissesNothingAndASecondAttachGetsTheRecentPart(t *testing.T) {
	s := runnertest.Start(t, nil)
	c := s.Dial()
	pid := c.Start(wire.Fields{"argv": runnertest.Sh("seq 200000"), "hold_output": true})
	var want bytes.Buffer
	for i := 1; i <= 200000; i++ {
		fmt.Fprintln(&want, i)
	}
	a := s.Attach(pid, nil)
	next := 0.0
	var got bytes.Buffer
	for {
		f, body := a.Receive()
		if f["type"] != "stdout" {
			break
		}
		if f["offset"] != next {
			t.Fatalf("offset %v where %v was next", f["offset"], next)
		}
		next += float64(len(body))
		got.Write(body)
	}
	if !bytes.Equal(got.Bytes(), want.Bytes()) {
		t.Errorf("%d bytes of %d", got.Len(), want.Len())
	}
	recent, _, _ := s.Attach(pid, nil).Finish()
	if len(recent) != keptBytes || !bytes.HasSuffix(want.Bytes(), []byte(recent)) {
		t.Errorf("%d bytes were kept", len(recent))
	}
}

func TestOutputThatNobodyReadsIsDropped(t *testing.T) {
	s := runnertest.Start(t, nil)
	c := s.Dial()
	pid := c.Start(wire.Fields{"argv": runnertest.Sh("seq 200000")})
	runnertest.Eventually(t, "the process ends by itself", func() bool { return c.Process(pid)["running"] == false })
}

func TestADescendantThatOutlivesTheProcessIsNoHindrance(t *testing.T) {
	s := runnertest.Start(t, nil)
	pid := s.Dial().Start(wire.Fields{"argv": runnertest.Sh("sleep 60 & echo started; exit 3")})
	if out, _, exit := s.Attach(pid, nil).Finish(); out != "started\n" || exit["exit_code"] != 3.0 {
		t.Errorf("got %q, %v", out, exit)
	}
}

func TestOnlySoManyEndedProcessesAreKept(t *testing.T) {
	c := runnertest.Start(t, nil).Dial()
	first := c.Start(wire.Fields{"argv": []string{"true"}})
	runnertest.Eventually(t, "the first ends", func() bool { return c.Process(first)["running"] == false })
	for i := 0; i < keptProcesses; i++ {
		c.Start(wire.Fields{"argv": []string{"true"}})
	}
	runnertest.Eventually(t, "the first is forgotten", func() bool {
		f, _ := c.Call("process.get", wire.Fields{"pid": first})
		return f["code"] == wire.CodeProcessNotFound
	})
	if f, _ := c.Call("process.list", nil); len(f["processes"].([]any)) > keptProcesses {
		t.Errorf("%d processes are listed", len(f["processes"].([]any)))
	}
}

func TestTheBytesThatWaitForAProcessAreBounded(t *testing.T) {
	c := runnertest.Start(t, nil).Dial()
	pid := c.Start(wire.Fields{"argv": []string{"sleep", "60"}, "stdin": true})
	c.Send(wire.Fields{"id": "large", "type": "process.stdin", "pid": pid}, bytes.Repeat([]byte("x"), 2*maxPendingInput))
	c.Send(wire.Fields{"id": "more", "type": "process.stdin", "pid": pid}, []byte("more"))
	if f := c.Until("more"); f["code"] != wire.CodeTooManyWaiting {
		t.Errorf("got %v", f)
	}
}
