package shell

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"sandglass/runner/internal/runnertest"
	"sandglass/runner/internal/wire"
)

func TestATimeoutEndsTheCommandAndNotTheShell(t *testing.T) {
	for _, c := range []struct {
		title, cmd string
		exited     bool
	}{
		{"a program", "sleep 60", false},
		{"a pipeline", "sleep 60 | sleep 60 | cat", false},
		{"a program that reads the terminal", "cat </dev/tty", false},
		{"a loop of the shell", "while :; do :; done", false},
		{"a loop of programs", "while :; do sleep 0.01; done", false},
		{"read", "read x </dev/tty", false},
		{"a program that ignores the interrupt", "sh -c 'trap \"\" INT; sleep 60; sleep 60'", false},
		{"children in groups of their own", "sh -c 'timeout 60 sleep 60; :'", false},
		{"a stopped shell", "kill -STOP $$", false},
		{"a command substitution", "x=$(sleep 60)", false},
		{"a shell that ignores the interrupt and goes on", "trap '' INT; while :; do sleep 0.01; done", true},
		{"a shell whose driver was removed", "unset -f __sandglass_step", true},
	} {
		c := c
		t.Run(c.title, func(t *testing.T) {
			t.Parallel()
			client := runnertest.Start(t, nil).Dial()
			client.Exec("cd /usr; A=kept; sleep 61 & sleep 62 & B=$!")
			got := client.Exec("echo begun; "+c.cmd, wire.Fields{"timeout_ms": 1000})
			if !got.TimedOut || got.Code != 124 || got.Exited != c.exited || !c.exited && got.Out != "begun\r\n" {
				t.Fatalf("got %+v", got)
			}
			// A process that has just ended is a zombie until it is reaped.
			runnertest.Eventually(t, "nothing of it is left", func() bool {
				return client.Exec("pgrep -s 0 -a sleep | grep -vE 'sleep 6[12]'; :").Out == ""
			})
			want := "/usr kept\r\nsleep 61\r\nsleep 62\r\n"
			if c.exited {
				return
			}
			if got := client.Exec("echo $PWD $A; pgrep -s 0 -a sleep | cut -d' ' -f2-"); got.Out != want {
				t.Errorf("after the timeout: %q", got.Out)
			}
		})
	}
}

func TestTheTimeOfACommandCountsFromItsRequest(t *testing.T) {
	s := runnertest.Start(t, nil)
	c := s.Dial()
	c.Exec("A=kept")
	c.Request("exec", wire.Fields{"cmd": "until test -e go; do sleep 0.01; done"})
	c.Request("exec", wire.Fields{"cmd": "touch late", "timeout_ms": 100})
	f, body := c.Receive()
	if got := runnertest.AsResult(t, f, body); !got.TimedOut || !got.NeverBegan || got.Code != 124 || got.Out != "" {
		t.Errorf("got %+v", got)
	}
	s.Dial().Exec("touch go", wire.Fields{"shell": "other"})
	if f, body := c.Receive(); runnertest.AsResult(t, f, body).NeverBegan {
		t.Errorf("got %v", f)
	}
	if got := c.Exec("ls late; echo $A"); !strings.HasSuffix(got.Out, "cannot access 'late': No such file or directory\r\nkept\r\n") {
		t.Errorf("got %+v", got)
	}
}

func TestTheTimeOfAStreamIsItsClientsChoice(t *testing.T) {
	for _, c := range []struct {
		ms      int64
		streams bool
		want    time.Duration
		ok      bool
	}{
		{0, false, defaultTimeout, true}, {0, true, 0, false}, {1, true, time.Millisecond, true}, {1 << 62, false, wire.MaxTimeout, true},
	} {
		got, ok := (&execRequest{TimeoutMS: c.ms}).timeout(c.streams)
		if ok != c.ok || ok && got != c.want {
			t.Errorf("%+v: %v %v", c, got, ok)
		}
	}
}

func TestACommandThatIsEndedPrintsWhatItPrintedItself(t *testing.T) {
	for _, c := range []struct{ cmd, want string }{
		{"sleep 60", ""}, {"echo; sleep 60", "\r\n"}, {"printf a; sleep 60", "a"}, {"echo one; while :; do sleep 0.01; done", "one\r\n"},
		{"sh -c 'trap \"exit 130\" INT; echo; while :; do sleep 0.01; done'", "\r\n"},
	} {
		c := c
		t.Run(c.cmd, func(t *testing.T) {
			t.Parallel()
			s := runnertest.Start(t, nil)
			client := s.Dial()
			client.Exec("true") // the shell has started
			if got := client.Exec(c.cmd, wire.Fields{"timeout_ms": 2000}); got.Out != c.want || !got.TimedOut {
				t.Errorf("%+v", got)
			}
			stream := s.Dial()
			stream.Stream(wire.Fields{"cmd": c.cmd, "timeout_ms": 2000})
			if got, _ := stream.Streamed(); got.Out != c.want || !got.TimedOut {
				t.Errorf("streamed: %+v", got)
			}
		})
	}
}

func TestATimeoutThatMeetsTheEndOfTheCommandDisturbsNothing(t *testing.T) {
	t.Parallel()
	c := runnertest.Start(t, nil).Dial()
	c.Exec("A=kept")
	for i := 0; i < 60; i++ {
		cmd := []string{"sleep 0.02", "read -t 0.02 x </dev/tty", "while :; do /bin/true; done"}[i%3]
		if got := c.Exec(cmd, wire.Fields{"timeout_ms": 20 + i%5}); got.Exited {
			t.Fatalf("round %d: %+v", i, got)
		}
		if got := c.Exec(fmt.Sprintf("echo %d $A", i)); got.Out != fmt.Sprintf("%d kept\r\n", i) {
			t.Fatalf("round %d, after: %+v", i, got)
		}
	}
}
