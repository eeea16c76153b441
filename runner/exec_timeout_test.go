package main

import (
	"fmt"
	"strings"
	"testing"
)

func TestATimeoutEndsTheCommandAndNotTheShell(t *testing.T) {
	for _, c := range []struct {
		title, cmd string
		exited     bool
	}{
		{"a program", "sleep 60", false},
		{"a pipeline", "sleep 60 | sleep 60 | cat", false},
		{"a program that reads the terminal", "cat", false},
		{"a loop of the shell", "while :; do :; done", false},
		{"a loop of programs", "while :; do sleep 0.01; done", false},
		{"read", "read x", false},
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
			if !got.timedOut || got.code != 124 || got.exited != c.exited || !strings.HasPrefix(got.out, "begun\r\n") {
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

func TestWaitingForATurnIsNotPartOfTheTimeout(t *testing.T) {
	s := startRunner(t, nil)
	c := s.dial()
	c.exec(":")
	c.request("exec", fields{"cmd": "sleep 1.2"})
	c.request("exec", fields{"cmd": "echo quick", "timeout_ms": 1000})
	c.receive()
	f, body := c.receive()
	if got := asResult(t, f, body); got.timedOut || got.out != "quick\r\n" {
		t.Errorf("got %+v", got)
	}
}

func TestATimeoutThatMeetsTheEndOfTheCommandDisturbsNothing(t *testing.T) {
	t.Parallel()
	c := startRunner(t, nil).dial()
	c.exec("A=kept")
	for i := 0; i < 60; i++ {
		cmd := []string{"sleep 0.02", "read -t 0.02 x", "while :; do /bin/true; done"}[i%3]
		if got := c.exec(cmd, fields{"timeout_ms": 20 + i%5}); got.exited {
			t.Fatalf("round %d: %+v", i, got)
		}
		if got := c.exec(fmt.Sprintf("echo %d $A", i)); got.out != fmt.Sprintf("%d kept\r\n", i) {
			t.Fatalf("round %d, after: %+v", i, got)
		}
	}
}
