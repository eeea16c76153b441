package main

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// A step is one command and what its reply must be.
type step struct {
	cmd    string
	code   int
	out    string // with \n for the terminal's \r\n; "*" stands for anything
	exited bool
}

func TestCommandsInAShellBehaveAsTypedThere(t *testing.T) {
	for _, c := range []struct {
		title string
		steps []step
	}{
		{"cd, variables and functions persist", []step{
			{cmd: "cd /usr; A=1; export B=2; f() { echo f$A; }"}, {cmd: "pwd; f; sh -c 'echo $B'", out: "/usr\nf1\n2\n"}}},
		{"declare makes global variables", []step{
			{cmd: "declare -i n=3; declare -A m=([k]=v); a=(x y)"}, {cmd: "echo $n ${m[k]} ${a[1]}", out: "3 v y\n"}}},
		{"the status of a command is seen by the next", []step{
			{cmd: "false", code: 1}, {cmd: "echo $?", out: "1\n"}, {cmd: "(exit 7)", code: 7}, {cmd: "echo $?", out: "7\n"}, {cmd: "echo $?", out: "0\n"}}},
		{"aliases work from the next command on", []step{{cmd: "alias hi='echo hello'"}, {cmd: "hi", out: "hello\n"}}},
		{"several lines and here-documents", []step{
			{cmd: "for i in 1 2\ndo echo $i\ndone", out: "1\n2\n"}, {cmd: "cat <<E\none\ntwo\nE", out: "one\ntwo\n"}}},
		{"an open here-document ends with the command", []step{{cmd: "cat <<E\ntext", out: "*text\n"}, {cmd: "echo next", out: "next\n"}}},
		{"a syntax error is status 2 and the shell lives", []step{
			{cmd: "X=1"}, {cmd: "if", code: 2, out: "*syntax error*"}, {cmd: "echo )", code: 2, out: "*syntax error*"}, {cmd: "echo $X", out: "1\n"}}},
		{"an open quote is an error", []step{{cmd: "echo \"abc", code: 2, out: "*matching*"}, {cmd: "echo 'abc", code: 2, out: "*matching*"}, {cmd: "echo ok", out: "ok\n"}}},
		{"exit ends the shell with its code", []step{
			{cmd: "A=1; exit 3", code: 3, exited: true}, {cmd: "echo [$A]", out: "[]\n"}, {cmd: "exit", exited: true}}},
		{"an exit trap prints", []step{{cmd: "trap 'echo bye' EXIT; exit 4", code: 4, out: "bye\n", exited: true}}},
		{"a shell that kills itself", []step{{cmd: "echo last; kill -9 $$", code: 137, out: "last\n", exited: true}, {cmd: "echo again", out: "again\n"}}},
		{"a shell that is replaced", []step{{cmd: "exec sh -c 'echo other; exit 5'", code: 5, out: "other\n", exited: true}, {cmd: "echo again", out: "again\n"}}},
		{"errexit ends the shell, as at a prompt", []step{{cmd: "set -e"}, {cmd: "true"}, {cmd: "false", code: 1, exited: true}}},
		{"errexit spares what bash itself spares", []step{
			{cmd: "set -e; [ -f nothing ] && echo no", code: 1}, {cmd: "echo $?", out: "1\n"}, {cmd: "[ -f nothing ] && echo no", code: 1},
			{cmd: "false || false && true", code: 1}, {cmd: "! true", code: 1}, {cmd: "f() { false && true; }; ! f"}, {cmd: "cat <<E\ntext", out: "*text\n"},
			{cmd: "echo a # comment", out: "a\n"}, {cmd: "sleep 0 &"}, {cmd: "set -x"}, {cmd: "test -f nothing && :", code: 1, out: "+++ test -f nothing\n"},
			{cmd: "set +x", out: "*"}, {cmd: "(exit 6)", code: 6, exited: true}}},
		{"unfinished text under errexit stays an error", []step{
			{cmd: "set -e; echo a |", code: 2, out: "*syntax error*"}, {cmd: "set -e; f()", code: 2, out: "*syntax error*"}, {cmd: "set -e; echo 'a", code: 2, out: "*matching*"},
			{cmd: "type f", code: 1, out: "*"}}},
		{"nounset fails the command alone", []step{{cmd: "set -u"}, {cmd: "echo $nothing", code: 1, out: "*unbound*"}, {cmd: "echo ok", out: "ok\n"}}},
		{"xtrace shows the command and nothing of the driver", []step{
			{cmd: "set -x"}, {cmd: "echo a", out: "+++ echo a\na\n"}, {cmd: "false", code: 1, out: "+++ false\n"},
			{cmd: "echo $?", out: "+++ echo 1\n1\n"}, {cmd: "set +x", out: "+++ set +x\n"}, {cmd: "echo b", out: "b\n"}}},
		{"stdout can be moved and closed", []step{
			{cmd: "exec >moved"}, {cmd: "echo there"}, {cmd: "exec >/dev/tty; cat moved", out: "there\n"},
			{cmd: "exec >&- 2>&-"}, {cmd: "echo lost", code: 1}, {cmd: "exec >/dev/tty 2>&1"}, {cmd: "echo back", out: "back\n"}}},
		{"PROMPT_COMMAND and PS1 may be changed", []step{
			{cmd: "PS1=mine; PROMPT_COMMAND='echo no'"}, {cmd: "echo a", out: "a\n"}, {cmd: "unset PROMPT_COMMAND"}, {cmd: "echo b", out: "b\n"},
			{cmd: "PROMPT_COMMAND=(x y)"}, {cmd: "echo c", out: "c\n"}}},
		{"break and continue outside a loop", []step{{cmd: "break", code: 1}, {cmd: "continue"}, {cmd: "for i in 1; do break 3; done", code: 1}, {cmd: "echo ok", out: "ok\n"}}},
		{"return outside a function", []step{{cmd: "return 3", code: 2, out: "*return*"}, {cmd: "echo ok", out: "ok\n"}}},
		{"background jobs belong to the shell", []step{
			{cmd: "sleep 30 &"}, {cmd: "jobs", out: "[1]+  Running                 sleep 30 &\n"}, {cmd: "kill %1; wait %1", code: 143, out: "*"}, {cmd: "jobs", out: "*"},
			{cmd: "sleep 0.1 & fg", out: "sleep 0.1\n"}, {cmd: "sleep 0.05 & wait; echo waited", out: "waited\n"}}},
		{"traps of other signals", []step{{cmd: "trap 'echo got' USR1; kill -USR1 $$; :", out: "got\n"}}},
		{"an ERR trap sees only the command", []step{{cmd: "trap 'echo err' ERR"}, {cmd: "false", code: 1, out: "err\nerr\n"}, {cmd: "trap - ERR"}, {cmd: "echo $?", out: "0\n"}}},
		{"posix mode, vi mode, noglob and noclobber", []step{{cmd: "set -o posix"}, {cmd: "echo a", out: "a\n"}, {cmd: "set -o vi; set -fC"}, {cmd: "echo *", out: "*\n"}}},
		{"odd field separators and options", []step{{cmd: "IFS=0123456789r"}, {cmd: "echo a", out: "a\n"}, {cmd: "shopt -s nullglob extglob; TMOUT=1"}, {cmd: "echo b", out: "b\n"}}},
		{"output that looks like a report", []step{{cmd: "printf '9 0 /x\\n\\0'", out: "9 0 /x\n\x00"}, {cmd: "echo ok", out: "ok\n"}}},
		{"bytes that are not UTF-8, and escape sequences", []step{{cmd: `printf '\xff\xfe\e[31m\r'`, out: "\xff\xfe\x1b[31m\r"}}},
		{"output without a newline does not meet the next", []step{{cmd: "printf abc", out: "abc"}, {cmd: "printf def", out: "def"}}},
		{"no prompt, echo or job chatter", []step{{cmd: "sleep 0.01 &"}, {cmd: "sleep 0.1"}, {cmd: "echo x", out: "x\n"}}},
		{"private descriptors are closed", []step{{cmd: "ls /proc/self/fd | wc -l", out: "4\n"}, {cmd: "echo x >&243", code: 1, out: "*"}}},
	} {
		c := c
		t.Run(c.title, func(t *testing.T) {
			t.Parallel()
			client := startRunner(t, nil).dial()
			for _, s := range c.steps {
				got := client.exec(s.cmd, fields{"timeout_ms": 10000})
				if got.failure != "" || got.timedOut || got.code != s.code || got.exited != s.exited || !matches(s.out, got.out) {
					t.Errorf("%q: got %+v, want %+v", s.cmd, got, s)
				}
			}
		})
	}
}

// matches compares terminal output with text in which * stands for anything.
func matches(want, got string) bool {
	got = strings.ReplaceAll(got, "\r\n", "\n")
	if !strings.Contains(want, "*") || want == "*\n" && got == want {
		return got == want
	}
	for _, part := range strings.Split(want, "*") {
		i := strings.Index(got, part)
		if i < 0 {
			return false
		}
		got = got[i+len(part):]
	}
	return true
}

func TestTheWorkingDirectoryIsReportedIntact(t *testing.T) {
	s := startRunner(t, nil)
	c := s.dial()
	got := c.exec(`mkdir $'new\nline' && cd new*`)
	if got.cwd != s.dir+"/new\nline" {
		t.Errorf("cwd is %q", got.cwd)
	}
	f, _ := c.call("exec", fields{"cmd": `mkdir $'\xff' && cd $'\xff'`})
	if f["cwd"] != s.dir+"/new\nline/\uFFFD" || f["cwd_base64"] == nil {
		t.Errorf("cwd is %q, exactly %v", f["cwd"], f["cwd_base64"])
	}
}

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
			got := client.exec("echo begun; "+c.cmd, fields{"timeout_ms": 300})
			if !got.timedOut || got.code != 124 || got.exited != c.exited || !strings.HasPrefix(got.out, "begun\r\n") {
				t.Fatalf("got %+v", got)
			}
			if left := client.exec("pgrep -s 0 -a sleep | grep -vE 'sleep 6[12]'; :"); left.out != "" {
				t.Errorf("still running: %q", left.out)
			}
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
	c.request("exec", fields{"cmd": "sleep 0.4"})
	c.request("exec", fields{"cmd": "echo quick", "timeout_ms": 200})
	c.receive()
	f, body := c.receive()
	if got := asResult(t, f, body); got.timedOut || got.out != "quick\r\n" {
		t.Errorf("got %+v", got)
	}
}

func TestCommandsRunInTheOrderTheyArrive(t *testing.T) {
	c := startRunner(t, nil).dial()
	for i := 0; i < 100; i++ {
		c.request("exec", fields{"cmd": fmt.Sprintf("list+=(%d)", i)})
	}
	for i := 0; i < 100; i++ {
		c.receive()
	}
	var want []string
	for i := 0; i < 100; i++ {
		want = append(want, fmt.Sprint(i))
	}
	if got := c.exec("echo \"${list[@]}\" | tr -d '\\n'"); got.out != strings.Join(want, " ") {
		t.Errorf("order was %q", got.out)
	}
}

func TestTwoClientsInOneShellNeverGetEachOthersOutput(t *testing.T) {
	s := startRunner(t, nil)
	s.dial().exec(":")
	done := make(chan string, 2)
	for _, name := range []string{"left", "right"} {
		go func(name string, c *client) {
			for i := 0; i < 500; i++ {
				want := fmt.Sprintf("%s %d\r\n", name, i)
				if got := c.exec(fmt.Sprintf("echo %s %d", name, i)); got.out != want {
					done <- fmt.Sprintf("got %q, want %q", got.out, want)
					return
				}
			}
			done <- ""
		}(name, s.dial())
	}
	for i := 0; i < 2; i++ {
		if problem := <-done; problem != "" {
			t.Error(problem)
		}
	}
}

// RUNNER_EXECS=10000 makes a long run of it.
func TestManyQuickCommandsNeverMixTheirOutput(t *testing.T) {
	count := 2000
	if value := os.Getenv("RUNNER_EXECS"); value != "" {
		fmt.Sscan(value, &count)
	}
	c := startRunner(t, nil).dial()
	for i := 0; i < count; i++ {
		want := fmt.Sprintf("%d\r\nerr %d\r\n", i, i)
		cmd := fmt.Sprintf("echo %d; echo err %d >&2", i, i)
		if i%10 == 0 {
			cmd = fmt.Sprintf("/bin/echo %d; sh -c 'echo err %d >&2'", i, i)
		}
		if got := c.exec(cmd); got.out != want {
			t.Fatalf("command %d printed %q", i, got.out)
		}
	}
}

func TestOutputBeyondTheCapLosesItsMiddle(t *testing.T) {
	s := startRunner(t, nil)
	c := s.dial()
	for _, max := range []int{0, 1, 10, 11, 1000} {
		got := c.exec("seq 1000", fields{"max_output_bytes": max})
		var all strings.Builder
		for i := 1; i <= 1000; i++ {
			fmt.Fprintf(&all, "%d\r\n", i)
		}
		whole := all.String()
		want := whole[:max-max/2] + whole[len(whole)-max/2:]
		if got.out != want || !got.truncated || got.code != 0 {
			t.Errorf("cap %d: %d bytes %.40q, truncated %v", max, len(got.out), got.out, got.truncated)
		}
	}
	if got := c.exec("seq 1000", fields{"max_output_bytes": 5000}); got.truncated {
		t.Error("short output counts as truncated")
	}
}

func TestLargeOutputDoesNotGrowTheRunner(t *testing.T) {
	s := startRunner(t, nil)
	c := s.dial()
	got := c.exec("head -c 40000000 /dev/zero | tr '\\0' x", fields{"timeout_ms": 40000, "max_output_bytes": 100000})
	if got.code != 0 || !got.truncated || len(got.out) != 100000 || strings.Trim(got.out, "x") != "" {
		t.Errorf("code %d, truncated %v, %d bytes", got.code, got.truncated, len(got.out))
	}
	if peak := s.peakMemory(); peak > 24<<20 {
		t.Errorf("the runner grew to %d bytes", peak)
	}
}

// peakMemory is the largest resident size that the runner has had.
func (s *sandbox) peakMemory() int {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	if err != nil {
		s.t.Fatal(err)
	}
	var kib int
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	fmt.Sscan(rest, &kib)
	return kib << 10
}

func TestAMebibyteOfCommandIsQuick(t *testing.T) {
	c := startRunner(t, nil).dial()
	c.exec(":")
	started := time.Now()
	got := c.exec("x='" + strings.Repeat("é\\\n", (1<<20)/4-10) + "'; echo ${#x}")
	if got.out != fmt.Sprintf("%d\r\n", 3*((1<<20)/4-10)) {
		t.Errorf("got %+v", got)
	}
	if took := time.Since(started); took > 3*time.Second {
		t.Errorf("took %v", took)
	}
}

func TestBackgroundOutputGoesToTheNextCommand(t *testing.T) {
	c := startRunner(t, nil).dial()
	got := c.exec("(echo late > /dev/tty; touch done) &").out
	eventually(t, "the output of the job arrives", func() bool {
		next := c.exec("test -e done")
		got += next.out
		return next.code == 0 && got != ""
	})
	if got != "late\r\n" {
		t.Errorf("got %q", got)
	}
}

func TestABadExecIsRefused(t *testing.T) {
	c := startRunner(t, nil).dial()
	for _, args := range []fields{
		{"cmd": ""}, {"cmd": "a\x00b"}, {"cmd": strings.Repeat("x", 1<<20+1)}, {"cmd": ":", "timeout_ms": -1}, {"cmd": ":", "shell": "No"},
		{"cmd": ":", "max_output_bytes": -1}, {"cmd": ":", "max_output_bytes": 65 << 20}, {"cmd": 5},
	} {
		if f, _ := c.call("exec", args); f["code"] != codeInvalidRequest {
			t.Errorf("%.40v: %v", args, f)
		}
	}
	if got := c.exec("echo ok"); got.out != "ok\r\n" {
		t.Errorf("afterwards: %+v", got)
	}
}

func TestStreamedExec(t *testing.T) {
	s := startRunner(t, nil)
	c := s.dial()
	c.request("exec", fields{"cmd": "for i in 1 2 3; do echo $i; sleep 0.05; done; cd /usr; exit 6", "stream": true})
	var out strings.Builder
	chunks := 0
	for {
		f, body := c.receive()
		if f["type"] == "exec_done" {
			if f["exit_code"] != 6.0 || f["shell_exited"] != true {
				t.Errorf("ended with %v", f)
			}
			break
		}
		chunks++
		out.Write(body)
	}
	if out.String() != "1\r\n2\r\n3\r\n" || chunks < 2 {
		t.Errorf("got %q in %d chunks", out.String(), chunks)
	}
	if f, _ := c.receive(); f != nil {
		t.Errorf("the connection stayed open: %v", f)
	}
}

func TestACommandOutlivesItsStream(t *testing.T) {
	s := startRunner(t, nil)
	c := s.dial()
	c.request("exec", fields{"cmd": "echo one; seq 100000; touch finished", "stream": true})
	c.receive()
	c.conn.Close()
	if got := s.dial().exec("ls finished"); got.out != "finished\r\n" {
		t.Errorf("got %+v", got)
	}
}

func TestALargeStreamArrivesWhole(t *testing.T) {
	s := startRunner(t, nil)
	c := s.dial()
	c.request("exec", fields{"cmd": "seq 200000", "stream": true})
	next, pending := 1, ""
	for {
		f, body := c.receive()
		if f["type"] != "exec_chunk" {
			break
		}
		lines := strings.Split(pending+string(body), "\r\n")
		pending = lines[len(lines)-1]
		for _, line := range lines[:len(lines)-1] {
			if line != fmt.Sprint(next) {
				t.Fatalf("line %d is %q", next, line)
			}
			next++
		}
	}
	if next != 200001 {
		t.Errorf("ended before line %d", next)
	}
}

func TestShWhereThereIsNoBash(t *testing.T) {
	c := startRunner(t, fields{"shell": "sh"}).dial()
	for _, s := range []step{
		{cmd: "cd /usr; A=1; f() { echo f$A; }"}, {cmd: "f; pwd; false", code: 1, out: "f1\n/usr\n"}, {cmd: "echo $?", out: "1\n"},
		{cmd: "echo \"abc", code: 2, out: "*quoted*"}, {cmd: "echo $A", out: "1\n"}, {cmd: "cat <<E\nx\nE", out: "x\n"},
		{cmd: "sleep 30 &"}, {cmd: "kill $!; wait $!", code: 143, out: "*"}, {cmd: "exit 3", code: 3, exited: true}, {cmd: "echo new", out: "new\n"},
	} {
		got := c.exec(s.cmd, fields{"timeout_ms": 5000})
		if got.code != s.code || got.exited != s.exited || got.timedOut || !matches(s.out, got.out) {
			t.Errorf("%q: got %+v, want %+v", s.cmd, got, s)
		}
	}
	c.exec("B=kept")
	if got := c.exec("sleep 60 | cat", fields{"timeout_ms": 200}); !got.timedOut || got.exited {
		t.Errorf("a timeout: %+v", got)
	}
	if got := c.exec("echo $B"); got.out != "kept\r\n" {
		t.Errorf("after the timeout: %+v", got)
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
