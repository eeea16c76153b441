package main

import (
	"fmt"
	"strings"
	"testing"
	"time"
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
			client := startRunner(t, nil).dial()
			client.exec("cd /usr; A=kept; sleep 61 & sleep 62 & B=$!")
			got := client.exec("echo begun; "+c.cmd, fields{"timeout_ms": 1000})
			if !got.timedOut || got.code != 124 || got.exited != c.exited || !c.exited && got.out != "begun\r\n" {
				t.Fatalf("got %+v", got)
			}
			// One that has just ended is there until somebody has waited for it.
			eventually(t, "nothing of it is left", func() bool {
				return client.exec("pgrep -s 0 -a sleep | grep -vE 'sleep 6[12]'; :").out == ""
			})
			want := "/usr kept\r\nsleep 61\r\nsleep 62\r\n"
			if c.exited {
				return
			}
			if got := client.exec("echo $PWD $A; pgrep -s 0 -a sleep | cut -d' ' -f2-"); got.out != want {
				t.Errorf("after the timeout: %q", got.out)
			}
		})
	}
}

func TestTheTimeOfACommandCountsFromItsRequest(t *testing.T) {
	s := startRunner(t, nil)
	c := s.dial()
	c.exec("A=kept")
	c.request("exec", fields{"cmd": "until test -e go; do sleep 0.01; done"})
	c.request("exec", fields{"cmd": "touch late", "timeout_ms": 100})
	f, body := c.receive()
	if got := asResult(t, f, body); !got.timedOut || !got.neverBegan || got.code != 124 || got.out != "" {
		t.Errorf("got %+v", got)
	}
	s.dial().exec("touch go", fields{"shell": "other"})
	if f, body := c.receive(); asResult(t, f, body).neverBegan {
		t.Errorf("got %v", f)
	}
	if got := c.exec("ls late; echo $A"); !strings.HasSuffix(got.out, "cannot access 'late': No such file or directory\r\nkept\r\n") {
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
		{0, false, defaultTimeout, true}, {0, true, 0, false}, {1, true, time.Millisecond, true}, {1 << 62, false, maxTimeout, true},
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
			s := startRunner(t, nil)
			client := s.dial()
			client.exec("true") // the shell has started
			if got := client.exec(c.cmd, fields{"timeout_ms": 2000}); got.out != c.want || !got.timedOut {
				t.Errorf("%+v", got)
			}
			stream := s.dial()
			stream.stream(fields{"cmd": c.cmd, "timeout_ms": 2000})
			if got, _ := stream.streamed(); got.out != c.want || !got.timedOut {
				t.Errorf("streamed: %+v", got)
			}
		})
	}
}

func TestATimeoutThatMeetsTheEndOfTheCommandDisturbsNothing(t *testing.T) {
	t.Parallel()
	c := startRunner(t, nil).dial()
	c.exec("A=kept")
	for i := 0; i < 60; i++ {
		cmd := []string{"sleep 0.02", "read -t 0.02 x </dev/tty", "while :; do /bin/true; done"}[i%3]
		if got := c.exec(cmd, fields{"timeout_ms": 20 + i%5}); got.exited {
			t.Fatalf("round %d: %+v", i, got)
		}
		if got := c.exec(fmt.Sprintf("echo %d $A", i)); got.out != fmt.Sprintf("%d kept\r\n", i) {
			t.Fatalf("round %d, after: %+v", i, got)
		}
	}
}
