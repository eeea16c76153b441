package spawn

import (
	"strings"
	"testing"

	"sandglass/runner/internal/runnertest"
	"sandglass/runner/internal/wire"
)

// A process of the sandbox stops all other processes of its user, repeatedly. Some are stopped after they have become that
// user and before they execute their program, while the runner waits for them.
func TestAChildThatIsStoppedBeforeItRunsHoldsUpNobody(t *testing.T) {
	s := runnertest.StartPID1(t, nil)
	c := s.Dial()
	c.Start(wire.Fields{"argv": runnertest.Sh("while :; do kill -STOP -1; done")})
	for i := 0; i < 60; i++ {
		c.Start(wire.Fields{"argv": []string{"sleep", "60"}})
		got := s.Attach(c.Start(wire.Fields{"argv": []string{"echo", "root"}, "user": "root"}), nil)
		if out, _, exit := got.Finish(); out != "root\n" || exit["exit_code"] != 0.0 {
			t.Fatalf("got %q, %v", out, exit)
		}
	}
}

// A program that cannot be executed is reported as an error and is not in the list of processes.
func TestAStartThatFailsSaysWhy(t *testing.T) {
	s := runnertest.Start(t, nil)
	c := s.Dial()
	for _, x := range []struct{ script, want string }{
		{"touch plain", wire.CodePermissionDenied},
		{"printf '#!/no/such/shell\\n' > plain; chmod +x plain", wire.CodeFileNotFound},
	} {
		c.Exec(x.script)
		f, _ := c.Call("process.start", wire.Fields{"argv": []string{s.Dir + "/plain"}})
		if f["code"] != x.want || !strings.Contains(f["message"].(string), "plain") {
			t.Errorf("%s: %v", x.script, f)
		}
	}
	if f, _ := c.Call("process.list", nil); len(f["processes"].([]any)) != 0 {
		t.Errorf("left %v", f)
	}
}
