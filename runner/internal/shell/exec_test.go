package shell

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"sandglass/runner/internal/runnertest"
	"sandglass/runner/internal/wire"
)

// A step is one command and its expected reply.
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
		{"programs that ended are not jobs", []step{
			{cmd: "/bin/true; jobs", out: ""}, {cmd: "sleep 60 & /bin/true; (exit 3); jobs", out: "[1]+  Running                 sleep 60 &\n"},
			{cmd: "/bin/true; jobs -r; jobs %1", out: "[1]+  Running                 sleep 60 &\n[1]+  Running                 sleep 60 &\n"}, {cmd: "jobs -p | wc -l; kill %1", out: "1\n"}}},
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
			client := runnertest.Start(t, nil).Dial()
			for _, s := range c.steps {
				got := client.Exec(s.cmd, wire.Fields{"timeout_ms": 10000})
				if got.Failure != "" || got.TimedOut || got.Code != s.code || got.Exited != s.exited || !runnertest.Matches(s.out, got.Out) {
					t.Errorf("%q: got %+v, want %+v", s.cmd, got, s)
				}
			}
		})
	}
}

func TestTheWorkingDirectoryIsReportedIntact(t *testing.T) {
	s := runnertest.Start(t, nil)
	c := s.Dial()
	got := c.Exec(`mkdir $'new\nline' && cd new*`)
	if got.Cwd != s.Dir+"/new\nline" {
		t.Errorf("cwd is %q", got.Cwd)
	}
	f, _ := c.Call("exec", wire.Fields{"cmd": `mkdir $'\xff' && cd $'\xff'`})
	if f["cwd"] != s.Dir+"/new\nline/\uFFFD" || f["cwd_base64"] == nil {
		t.Errorf("cwd is %q, exactly %v", f["cwd"], f["cwd_base64"])
	}
}

func TestCommandsRunInTheOrderTheyArrive(t *testing.T) {
	c := runnertest.Start(t, nil).Dial()
	for i := 0; i < 100; i++ {
		c.Request("exec", wire.Fields{"cmd": fmt.Sprintf("list+=(%d)", i)})
	}
	for i := 0; i < 100; i++ {
		c.Receive()
	}
	var want []string
	for i := 0; i < 100; i++ {
		want = append(want, fmt.Sprint(i))
	}
	if got := c.Exec("echo \"${list[@]}\" | tr -d '\\n'"); got.Out != strings.Join(want, " ") {
		t.Errorf("order was %q", got.Out)
	}
}

func TestTwoClientsInOneShellNeverGetEachOthersOutput(t *testing.T) {
	s := runnertest.Start(t, nil)
	s.Dial().Exec(":")
	done := make(chan string, 2)
	for _, name := range []string{"left", "right"} {
		go func(name string, c *runnertest.Client) {
			for i := 0; i < 500; i++ {
				want := fmt.Sprintf("%s %d\r\n", name, i)
				if got := c.Exec(fmt.Sprintf("echo %s %d", name, i)); got.Out != want {
					done <- fmt.Sprintf("got %q, want %q", got.Out, want)
					return
				}
			}
			done <- ""
		}(name, s.Dial())
	}
	for i := 0; i < 2; i++ {
		if problem := <-done; problem != "" {
			t.Error(problem)
		}
	}
}

// RUNNER_EXECS=10000 makes it a long test.
func TestManyQuickCommandsNeverMixTheirOutput(t *testing.T) {
	count := 2000
	if value := os.Getenv("RUNNER_EXECS"); value != "" {
		fmt.Sscan(value, &count)
	}
	c := runnertest.Start(t, nil).Dial()
	for i := 0; i < count; i++ {
		want := fmt.Sprintf("%d\r\nerr %d\r\n", i, i)
		cmd := fmt.Sprintf("echo %d; echo err %d >&2", i, i)
		if i%10 == 0 {
			cmd = fmt.Sprintf("/bin/echo %d; sh -c 'echo err %d >&2'", i, i)
		}
		if got := c.Exec(cmd); got.Out != want {
			t.Fatalf("command %d printed %q", i, got.Out)
		}
	}
}

func TestABadExecIsRefused(t *testing.T) {
	c := runnertest.Start(t, nil).Dial()
	for _, args := range []wire.Fields{
		{"cmd": ""}, {"cmd": "a\x00b"}, {"cmd": strings.Repeat("x", 1<<20+1)}, {"cmd": ":", "timeout_ms": -1}, {"cmd": ":", "shell": "No"},
		{"cmd": ":", "max_output_bytes": -1}, {"cmd": ":", "max_output_bytes": 65 << 20}, {"cmd": 5},
	} {
		if f, _ := c.Call("exec", args); f["code"] != wire.CodeInvalidRequest {
			t.Errorf("%.40v: %v", args, f)
		}
	}
	if got := c.Exec("echo ok"); got.Out != "ok\r\n" {
		t.Errorf("afterwards: %+v", got)
	}
}

func TestShWhereThereIsNoBash(t *testing.T) {
	c := runnertest.Start(t, wire.Fields{"shell": "sh"}).Dial()
	for _, s := range []step{
		{cmd: "cd /usr; A=1; f() { echo f$A; }"}, {cmd: "f; pwd; false", code: 1, out: "f1\n/usr\n"}, {cmd: "echo $?", out: "1\n"},
		{cmd: "echo \"abc", code: 2, out: "*quoted*"}, {cmd: "echo $A", out: "1\n"}, {cmd: "cat <<E\nx\nE", out: "x\n"},
		{cmd: "sleep 30 &"}, {cmd: "kill $!; wait $!", code: 143, out: "*"}, {cmd: "exit 3", code: 3, exited: true}, {cmd: "echo new", out: "new\n"},
	} {
		got := c.Exec(s.cmd, wire.Fields{"timeout_ms": 5000})
		if got.Code != s.code || got.Exited != s.exited || got.TimedOut || !runnertest.Matches(s.out, got.Out) {
			t.Errorf("%q: got %+v, want %+v", s.cmd, got, s)
		}
	}
	c.Exec("B=kept")
	if got := c.Exec("sleep 60 | cat", wire.Fields{"timeout_ms": 200}); !got.TimedOut || got.Exited {
		t.Errorf("a timeout: %+v", got)
	}
	if got := c.Exec("echo $B"); got.Out != "kept\r\n" {
		t.Errorf("after the timeout: %+v", got)
	}
}
