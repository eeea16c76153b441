package main

import (
	"os"
	"strings"
	"testing"
)

// A setStep is a command with settings of its own, and what it prints.
type setStep struct {
	cmd  string
	with fields
	out  string
}

func TestSettingsHoldForOneCommand(t *testing.T) {
	env := func(pairs ...string) fields {
		vars := fields{}
		for i := 0; i < len(pairs); i += 2 {
			vars[pairs[i]] = pairs[i+1]
		}
		return fields{"env": vars}
	}
	inEtc := fields{"cwd": "/etc"}
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
			{"mkdir ~/sub; cd /", nil, ""}, {"[ \"$PWD\" = ~/sub ] && echo yes", fields{"cwd": "sub"}, "yes\n"}}},
		{"the status of the command before is seen", []setStep{{"(exit 7)", nil, ""}, {"echo $?", inEtc, "7\n"}, {"(exit 8)", nil, ""}, {"echo $?", env("A", "1"), "8\n"}}},
		{"stdin is at its end", []setStep{{"cat; read x; echo $? [$x]", nil, "1 []\n"}, {"cat", fields{"cwd": "/"}, ""}, {"sleep 60 & kill $!; echo ok", nil, "ok\n"}}},
		{"stdin may be a file", []setStep{
			{"printf 'one\\ntwo\\n' > ~/in", nil, ""}, {"read x; cat; cd /usr", fields{"stdin_path": "in"}, "two\n"}, {"echo $x; pwd", nil, "one\n/usr\n"},
			{"cat <<E\nhere\nE", fields{"stdin_path": "in"}, "here\n"}, {"cat; echo end", nil, "end\n"}}},
		{"a stdin that is not there fails the command", []setStep{{"echo no", fields{"stdin_path": "/nowhere"}, "*/nowhere*"}, {"[ $? != 0 ] && echo yes", nil, "yes\n"}}},
		{"other redirections stay", []setStep{{"exec 3</dev/null; exec >~/out", nil, ""}, {"echo there", nil, ""}, {"exec >/dev/tty; cat ~/out", nil, "there\n"}}},
		{"a syntax error of the command is its own", []setStep{{"if", env("A", "1"), "*"}, {"echo $? ${A-unset}", nil, "2 unset\n"}}},
	} {
		for _, program := range []string{"bash", "sh"} {
			c, program := c, program
			t.Run(c.title+"/"+program, func(t *testing.T) {
				t.Parallel()
				client := startRunner(t, fields{"shell": program}).dial()
				for _, s := range c.steps {
					got := client.exec(s.cmd, fields{"timeout_ms": 10000}, s.with)
					if got.failure != "" || got.timedOut || got.exited || !matches(s.out, got.out) {
						t.Errorf("%q: got %+v, want %q", s.cmd, got, s.out)
					}
				}
			})
		}
	}
}

func TestSettingsInBash(t *testing.T) {
	client := startRunner(t, nil).dial()
	with := fields{"cwd": "/etc", "env": fields{"A": "1"}}
	for _, s := range []setStep{
		{"set -x", nil, ""}, {"echo $A", with, "++++ echo 1\n1\n"}, {"set +x", nil, "+++ set +x\n"},
		{"set -o posix", nil, ""}, {"echo $A; pwd", with, "1\n/etc\n"}, {"echo ${A-unset}; set +o posix", nil, "unset\n"},
		{"set -e", nil, ""}, {"[ -f nothing ] && echo no", with, ""}, {"echo $? $PWD; set +e", nil, "1 *"},
		{"declare -i n=3; a=(x y)", with, ""}, {"echo $n ${a[1]}", nil, "3 y\n"},
		{"break", with, ""}, {"while :; do sleep 0.01; done", fields{"cwd": "/etc", "env": fields{"A": "1"}, "timeout_ms": 300}, ""}, {"[ \"$PWD\" = ~ ] && echo home ${A-unset}", nil, "home unset\n"},
	} {
		if got := client.exec(s.cmd, s.with); got.failure != "" || got.exited || !matches(s.out, got.out) {
			t.Errorf("%q: got %+v, want %q", s.cmd, got, s.out)
		}
	}
}

func TestAFolderThatCannotBeEnteredRunsNothing(t *testing.T) {
	for _, program := range []string{"bash", "sh"} {
		config := fields{"shell": program}
		if os.Geteuid() == 0 {
			config["user"] = fields{"name": "sandbox", "uid": 1000, "gid": 1000}
		}
		s := startRunner(t, config)
		c := s.dial()
		c.exec("cd /usr; mkdir ~/closed && chmod 0 ~/closed; touch ~/file")
		for path, code := range map[string]string{"/nowhere": codeFileNotFound, "file": codeNotADirectory, "closed": codePermissionDenied} {
			if got := c.exec("touch ~/ran", fields{"cwd": path}); got.failure != code {
				t.Errorf("%s: %s: got %+v", program, path, got)
			}
		}
		if got := c.exec("pwd; ls ~/ran"); !strings.HasPrefix(got.out, "/usr\r\n") || got.code == 0 {
			t.Errorf("%s: afterwards: %+v", program, got)
		}
	}
}

func TestHostileSettingsAreRefused(t *testing.T) {
	c := startRunner(t, nil).dial()
	for _, with := range []fields{
		{"env": fields{"A;id": "1"}}, {"env": fields{"": "1"}}, {"env": fields{"1A": "1"}}, {"env": fields{"A": "a\x00b"}}, {"env": fields{"A b": "1"}},
		{"cwd": "a\x00b"}, {"stdin_path": "a\x00b"}, {"user": "nobody"}, {"shell": "main@root", "user": "sandbox"}, {"shell": "x@nobody"}, {"key": strings.Repeat("k", 65)},
	} {
		if got := c.exec("true", with); got.failure != codeInvalidRequest {
			t.Errorf("%v: %+v", with, got)
		}
	}
}

func TestAnotherUserHasAnotherShell(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can be several users")
	}
	s := startRunner(t, fields{"user": fields{"name": "sandbox", "uid": 1000, "gid": 1000}})
	c := s.dial()
	root := fields{"user": "root"}
	for _, step := range []setStep{
		{"A=mine; id -u", nil, "1000\n"}, {"id -u; echo [$A]; A=roots", root, "0\n[]\n"}, {"echo $A", nil, "mine\n"}, {"echo $A", root, "roots\n"},
		{"echo $A", fields{"shell": "main@root"}, "roots\n"}, {"echo $A", fields{"user": "sandbox"}, "mine\n"},
		{"id -u", fields{"shell": "work@root"}, "0\n"}, {"id -u", fields{"shell": "work", "user": "sandbox"}, "1000\n"},
	} {
		if got := c.exec(step.cmd, step.with); !matches(step.out, got.out) {
			t.Errorf("%q with %v: %+v", step.cmd, step.with, got)
		}
	}
	c.call("shell.create", fields{"name": "roots", "user": "root"})
	c.exec("A=created", fields{"shell": "roots"})
	if got := c.exec("id -u; echo $A", fields{"shell": "roots", "user": "root"}); got.out != "0\r\ncreated\r\n" {
		t.Errorf("a shell that is the user's: %+v", got)
	}
	if got := c.exec("id -u; echo [$A]", fields{"shell": "roots", "user": "sandbox"}); got.out != "1000\r\n[]\r\n" {
		t.Errorf("a shell that is another's: %+v", got)
	}
	f, _ := c.call("shell.list", nil)
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
