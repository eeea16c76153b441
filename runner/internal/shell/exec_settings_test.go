package shell

import (
	"os"
	"strings"
	"testing"

	"sandglass/runner/internal/runnertest"
	"sandglass/runner/internal/wire"
)

// A setStep is a command with settings and its expected output.
type setStep struct {
	cmd  string
	with wire.Fields
	out  string
}

func TestSettingsHoldForOneCommand(t *testing.T) {
	env := func(pairs ...string) wire.Fields {
		vars := wire.Fields{}
		for i := 0; i < len(pairs); i += 2 {
			vars[pairs[i]] = pairs[i+1]
		}
		return wire.Fields{"env": vars}
	}
	inEtc := wire.Fields{"cwd": "/etc"}
	for _, c := range []struct {
		title string
		steps []setStep
	}{
		{"variables are exported and gone afterwards", []setStep{
			{"B=old; export C=oldc", nil, ""},
			{`echo "$A" "$B" "$C"; sh -c 'echo "$A" "$B" "$C"'; B=changed; D=kept; export E=kept2; f() { echo f; }`,
				env("A", "it's $x `y`\n!", "B", "new", "C", "newc"), "it's $x `y`\n! new newc\nit's $x `y`\n! new newc\n"},
			{`echo "${A-unset} $B $C $D"; f; env | grep -E '^[A-E]=' | sort`, nil, "unset old oldc kept\nf\nC=oldc\nE=kept2\n"}}},
		{"the folder is the command's, and the shell is back afterwards", []setStep{
			{"cd /usr; cd /tmp", nil, ""}, {"pwd; cd /; pwd", inEtc, "/etc\n/\n"}, {"pwd; cd - >/dev/null; pwd", nil, "/tmp\n/usr\n"}}},
		{"a shell whose folder is gone is at home afterwards", []setStep{
			{"mkdir ~/gone; cd ~/gone; rmdir ~/gone", nil, ""}, {"pwd", inEtc, "/etc\n"}, {"[ \"$PWD\" = ~ ] && echo home", nil, "home\n"}}},
		{"a relative folder starts at the working directory of the sandbox", []setStep{
			{"mkdir ~/sub; cd /", nil, ""}, {"[ \"$PWD\" = ~/sub ] && echo yes", wire.Fields{"cwd": "sub"}, "yes\n"}}},
		{"the status of the command before is seen", []setStep{{"(exit 7)", nil, ""}, {"echo $?", inEtc, "7\n"}, {"(exit 8)", nil, ""}, {"echo $?", env("A", "1"), "8\n"}}},
		{"stdin is at its end", []setStep{{"cat; read x; echo $? [$x]", nil, "1 []\n"}, {"cat", wire.Fields{"cwd": "/"}, ""}, {"sleep 60 & kill $!; echo ok", nil, "ok\n"}}},
		{"stdin may be a file", []setStep{
			{"printf 'one\\ntwo\\n' > ~/in", nil, ""}, {"read x; cat; cd /usr", wire.Fields{"stdin_path": "in"}, "two\n"}, {"echo $x; pwd", nil, "one\n/usr\n"},
			{"cat <<E\nhere\nE", wire.Fields{"stdin_path": "in"}, "here\n"}, {"cat; echo end", nil, "end\n"}}},
		{"a stdin that is not there fails the command", []setStep{{"echo no", wire.Fields{"stdin_path": "/nowhere"}, "*/nowhere*"}, {"[ $? != 0 ] && echo yes", nil, "yes\n"}}},
		{"other redirections stay", []setStep{{"exec 3</dev/null; exec >~/out", nil, ""}, {"echo there", nil, ""}, {"exec >/dev/tty; cat ~/out", nil, "there\n"}}},
		{"a syntax error of the command is its own", []setStep{{"if", env("A", "1"), "*"}, {"echo $? ${A-unset}", nil, "2 unset\n"}}},
	} {
		for _, program := range []string{"bash", "sh"} {
			c, program := c, program
			t.Run(c.title+"/"+program, func(t *testing.T) {
				t.Parallel()
				client := runnertest.Start(t, wire.Fields{"shell": program}).Dial()
				for _, s := range c.steps {
					got := client.Exec(s.cmd, wire.Fields{"timeout_ms": 10000}, s.with)
					if got.Failure != "" || got.TimedOut || got.Exited || !runnertest.Matches(s.out, got.Out) {
						t.Errorf("%q: got %+v, want %q", s.cmd, got, s.out)
					}
				}
			})
		}
	}
}

func TestSettingsInBash(t *testing.T) {
	client := runnertest.Start(t, nil).Dial()
	with := wire.Fields{"cwd": "/etc", "env": wire.Fields{"A": "1"}}
	for _, s := range []setStep{
		{"set -x", nil, ""}, {"echo $A", with, "++++ echo 1\n1\n"}, {"set +x", nil, "+++ set +x\n"},
		{"set -o posix", nil, ""}, {"echo $A; pwd", with, "1\n/etc\n"}, {"echo ${A-unset}; set +o posix", nil, "unset\n"},
		{"set -e", nil, ""}, {"[ -f nothing ] && echo no", with, ""}, {"echo $? $PWD; set +e", nil, "1 *"},
		{"declare -i n=3; a=(x y)", with, ""}, {"echo $n ${a[1]}", nil, "3 y\n"},
		{"break", with, ""}, {"while :; do sleep 0.01; done", wire.Fields{"cwd": "/etc", "env": wire.Fields{"A": "1"}, "timeout_ms": 300}, ""}, {"[ \"$PWD\" = ~ ] && echo home ${A-unset}", nil, "home unset\n"},
	} {
		if got := client.Exec(s.cmd, s.with); got.Failure != "" || got.Exited || !runnertest.Matches(s.out, got.Out) {
			t.Errorf("%q: got %+v, want %q", s.cmd, got, s.out)
		}
	}
}

func TestAFolderThatCannotBeEnteredRunsNothing(t *testing.T) {
	for _, program := range []string{"bash", "sh"} {
		config := wire.Fields{"shell": program}
		if os.Geteuid() == 0 {
			config["user"] = wire.Fields{"name": "sandbox", "uid": 1000, "gid": 1000}
		}
		s := runnertest.Start(t, config)
		c := s.Dial()
		c.Exec("cd /usr; mkdir ~/closed && chmod 0 ~/closed; touch ~/file")
		for path, code := range map[string]string{"/nowhere": wire.CodeFileNotFound, "file": wire.CodeNotADirectory, "closed": wire.CodePermissionDenied} {
			if got := c.Exec("touch ~/ran", wire.Fields{"cwd": path}); got.Failure != code {
				t.Errorf("%s: %s: got %+v", program, path, got)
			}
		}
		if got := c.Exec("pwd; ls ~/ran"); !strings.HasPrefix(got.Out, "/usr\r\n") || got.Code == 0 {
			t.Errorf("%s: afterwards: %+v", program, got)
		}
	}
}

func TestHostileSettingsAreRefused(t *testing.T) {
	c := runnertest.Start(t, nil).Dial()
	for _, with := range []wire.Fields{
		{"env": wire.Fields{"A;id": "1"}}, {"env": wire.Fields{"": "1"}}, {"env": wire.Fields{"1A": "1"}}, {"env": wire.Fields{"A": "a\x00b"}}, {"env": wire.Fields{"A b": "1"}},
		{"cwd": "a\x00b"}, {"stdin_path": "a\x00b"}, {"user": "nobody"}, {"shell": "main@root", "user": "sandbox"}, {"shell": "x@nobody"}, {"key": strings.Repeat("k", 65)},
	} {
		if got := c.Exec("true", with); got.Failure != wire.CodeInvalidRequest {
			t.Errorf("%v: %+v", with, got)
		}
	}
}

func TestAnotherUserHasAnotherShell(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can be several users")
	}
	s := runnertest.Start(t, wire.Fields{"user": wire.Fields{"name": "sandbox", "uid": 1000, "gid": 1000}})
	c := s.Dial()
	root := wire.Fields{"user": "root"}
	for _, step := range []setStep{
		{"A=mine; id -u", nil, "1000\n"}, {"id -u; echo [$A]; A=roots", root, "0\n[]\n"}, {"echo $A", nil, "mine\n"}, {"echo $A", root, "roots\n"},
		{"echo $A", wire.Fields{"shell": "main@root"}, "roots\n"}, {"echo $A", wire.Fields{"user": "sandbox"}, "mine\n"},
		{"id -u", wire.Fields{"shell": "work@root"}, "0\n"}, {"id -u", wire.Fields{"shell": "work", "user": "sandbox"}, "1000\n"},
	} {
		if got := c.Exec(step.cmd, step.with); !runnertest.Matches(step.out, got.Out) {
			t.Errorf("%q with %v: %+v", step.cmd, step.with, got)
		}
	}
	c.Call("shell.create", wire.Fields{"name": "roots", "user": "root"})
	c.Exec("A=created", wire.Fields{"shell": "roots"})
	if got := c.Exec("id -u; echo $A", wire.Fields{"shell": "roots", "user": "root"}); got.Out != "0\r\ncreated\r\n" {
		t.Errorf("a shell that is the user's: %+v", got)
	}
	if got := c.Exec("id -u; echo [$A]", wire.Fields{"shell": "roots", "user": "sandbox"}); got.Out != "1000\r\n[]\r\n" {
		t.Errorf("a shell that is another's: %+v", got)
	}
	f, _ := c.Call("shell.list", nil)
	owners := map[string]any{}
	for _, sh := range f["shells"].([]any) {
		owners[sh.(map[string]any)["name"].(string)] = sh.(map[string]any)["user"]
	}
	for name, user := range map[string]string{"main": "sandbox", "main@root": "root", "work": "sandbox", "work@root": "root", "roots": "root", "roots@sandbox": "sandbox"} {
		if owners[name] != user {
			t.Errorf("%s belongs to %v", name, owners[name])
		}
	}
}
