package guest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
)

func controlWith(input string) (*control, *bytes.Buffer) {
	out := &bytes.Buffer{}
	return &control{in: bufio.NewReaderSize(strings.NewReader(input), 64), out: out}, out
}

func TestTheConfigurationIsTheFirstLineThatIsNotEmpty(t *testing.T) {
	line := oneLine(t, "guest-config")
	c, _ := controlWith("\n\n" + line + "\n{\"type\":\"end\"}\n")
	cfg, raw, err := c.awaitConfig()
	if err != nil || cfg.Hostname != "box" || string(raw) != line {
		t.Errorf("%+v, %v", cfg, err)
	}
	for name, input := range map[string]string{"a request": "{\"type\":\"end\"}\n", "no JSON": "hello\n", "the end of the port": ""} {
		c, _ := controlWith(input)
		if _, _, err := c.awaitConfig(); err == nil {
			t.Errorf("%s was taken for a configuration", name)
		}
	}
}

func TestALineOfThePortIsBounded(t *testing.T) {
	c, _ := controlWith(strings.Repeat("x", maxLineBytes+1000) + "\n")
	if _, err := c.line(); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("got %v", err)
	}
	long := strings.Repeat("y", 5000)
	c, _ = controlWith(long + "\nnext\n")
	for _, want := range []string{long, "next"} {
		if line, err := c.line(); err != nil || string(line) != want {
			t.Errorf("got %d bytes, %v", len(line), err)
		}
	}
	if _, err := c.line(); !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %v", err)
	}
}

func TestRequestsAreAnsweredAndOtherLinesDropped(t *testing.T) {
	cmd := exec.Command("sleep", "600")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Kill()
	s := &session{pid: cmd.Process.Pid}
	lines := []string{"", "half a li", "{}", `{"type":"other"}`, oneLine(t, "guest-request-stats"), `{"type":"clock"}`, oneLine(t, "guest-request-end")}
	c, out := controlWith(strings.Join(lines, "\n") + "\n")
	c.serve(s)
	reply := &statsReply{}
	if err := json.Unmarshal(out.Bytes(), reply); err != nil || reply.Type != "stats" || reply.ID != "k3j2" || strings.Count(out.String(), "\n") != 1 {
		t.Errorf("the answers are %q, %v", out, err)
	}
	if err := cmd.Wait(); err == nil || !s.isEnded {
		t.Errorf("the session was not ended: %v", err)
	}
	s.end() // twice is the same as once
}

func TestARequestOfALaterVersionIsAnswered(t *testing.T) {
	cmd := exec.Command("sleep", "600")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	s := &session{pid: cmd.Process.Pid}
	c, out := controlWith(`{"type":"stats","id":"1","added":{"later":true}}` + "\n" + `{"type":"end","grace_ms":5}` + "\n")
	c.serve(s)
	reply := &statsReply{}
	if err := json.Unmarshal(out.Bytes(), reply); err != nil || reply.ID != "1" {
		t.Errorf("the answer is %q, %v", out, err)
	}
	if !s.isEnded {
		t.Error("the session was not ended")
	}
	config := strings.Replace(oneLine(t, "guest-config"), "{", `{"added":1,`, 1)
	c, _ = controlWith(config + "\n")
	if _, _, err := c.awaitConfig(); err == nil || !strings.Contains(err.Error(), "added") {
		t.Errorf("a configuration with an unknown field: %v", err)
	}
}

func oneLine(t *testing.T, name string) string {
	t.Helper()
	out := &bytes.Buffer{}
	data, err := os.ReadFile("../../testdata/launcher/" + name + ".json")
	if err == nil {
		err = json.Compact(out, data)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out.String()
}
