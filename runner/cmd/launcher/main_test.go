package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"sandglass/runner/internal/testns"
)

func TestMain(m *testing.M) {
	if os.Getenv("TEST_LAUNCHER") != "" {
		main()
	}
	os.Exit(m.Run())
}

// launcher runs this program as the launcher.
func launcher(t *testing.T, input string, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Env = []string{"TEST_LAUNCHER=1"}
	cmd.Stdin = strings.NewReader(input)
	said := &strings.Builder{}
	cmd.Stderr = said
	output, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(output), said.String()
}

func TestACommandThatIsNotKnownIsAUsageError(t *testing.T) {
	for _, args := range [][]string{{}, {"launch"}, {"--client"}} {
		if status, stdout, stderr := launcher(t, "", args...); status != 2 || stdout != "" || stderr == "" {
			t.Errorf("%v: status %d, %q, %q", args, status, stdout, stderr)
		}
	}
}

func TestEveryCommandFailsWithoutInput(t *testing.T) {
	testns.Root(t)
	for name := range commands {
		if name == "tsc" || name == "devices" {
			continue // they need no input, or take an empty layer
		}
		status, stdout, stderr := launcher(t, "", name)
		if status == 0 || stdout+stderr == "" {
			t.Errorf("%s: status %d, %q, %q", name, status, stdout, stderr)
		}
	}
}

func TestAJobThatIsRefusedIsAResult(t *testing.T) {
	testns.Root(t)
	for input, want := range map[string]string{
		"":                                "ended before a job",
		"{}\n":                            "no kind that is known",
		"{\"probe\":{}}\n":                "probe.folder is missing",
		"{\"start\":{\"id\":1}}\n":        "cannot unmarshal number",
		"{\"look\":{}}\n":                 "unknown field",
		"not JSON\n":                      "parse job",
		strings.Repeat("x", 5<<20) + "\n": "read job",
	} {
		status, stdout, _ := launcher(t, input, "oci")
		r := struct {
			Ok    bool
			Error string
		}{}
		if err := json.Unmarshal([]byte(stdout), &r); err != nil || status != 1 || r.Ok || !strings.Contains(r.Error, want) {
			t.Errorf("%.40q: status %d, %q, %v; want %q", input, status, stdout, err, want)
		}
	}
}

func TestAPreparedLauncherUndoesItsWorkWhenStdinEnds(t *testing.T) {
	testns.Root(t)
	dir := t.TempDir()
	home := testns.File(t, dir+"/home", "")
	prepare := fmt.Sprintf(`{"prepare":{"groups":[{"dir":%q,"name":"/x","settings":[],"join":false}],"home":[%q],"disk":null,"ids":[],"runtime":null}}`+"\n", dir+"/parent/group", home)
	status, stdout, _ := launcher(t, prepare, "oci")
	if status != 1 || !strings.Contains(stdout, "ended before a job") {
		t.Errorf("status %d, %q", status, stdout)
	}
	if _, err := os.Stat(dir + "/parent"); !os.IsNotExist(err) {
		t.Errorf("its cgroup is left: %v", err)
	}
	if testns.Content(t, home) == "" {
		t.Error("it did not leave its cgroup")
	}
}

func TestAProbeIsAnswered(t *testing.T) {
	testns.Root(t)
	status, stdout, stderr := launcher(t, fmt.Sprintf(`{"probe":{"folder":%q}}`+"\n", t.TempDir()), "oci")
	if status != 0 || !strings.HasPrefix(stdout, `{"ok":true,"probed":{"mounts":"","loop":`) {
		t.Errorf("status %d, %q, %q", status, stdout, stderr)
	}
}
