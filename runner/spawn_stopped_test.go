package main

import (
	"strings"
	"testing"
)

// A process of the sandbox stops every other one of its user, all the time. Some are hit after they became that user and before
// they run their program, when the runner still waits for them.
func TestAChildThatIsStoppedBeforeItRunsHoldsUpNobody(t *testing.T) {
	s := startPID1(t, nil)
	c := s.dial()
	c.start(fields{"argv": sh("while :; do kill -STOP -1; done")})
	for i := 0; i < 60; i++ {
		c.start(fields{"argv": []string{"sleep", "60"}})
		got := s.attach(c.start(fields{"argv": []string{"echo", "root"}, "user": "root"}), nil)
		if out, _, exit := got.finish(); out != "root\n" || exit["exit_code"] != 0.0 {
			t.Fatalf("got %q, %v", out, exit)
		}
	}
}

// What cannot run is reported as such, and a later exit of its pid is nobody's.
func TestAStartThatFailsSaysWhy(t *testing.T) {
	s := startRunner(t, nil)
	c := s.dial()
	for _, x := range []struct{ script, want string }{
		{"touch plain", codePermissionDenied},
		{"printf '#!/no/such/shell\\n' > plain; chmod +x plain", codeFileNotFound},
	} {
		c.exec(x.script)
		f, _ := c.call("process.start", fields{"argv": []string{s.dir + "/plain"}})
		if f["code"] != x.want || !strings.Contains(f["message"].(string), "plain") {
			t.Errorf("%s: %v", x.script, f)
		}
	}
	if f, _ := c.call("process.list", nil); len(f["processes"].([]any)) != 0 {
		t.Errorf("left %v", f)
	}
}
