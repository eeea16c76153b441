package main

import (
	"bytes"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"

	"sandglass/runner/internal/config"
	"sandglass/runner/internal/runnertest"
)

func TestTheOneShotClient(t *testing.T) {
	s := runnertest.Start(t, nil)
	tokenFile := s.Dir + "/token"
	if err := os.WriteFile(tokenFile, []byte(runnertest.Token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		request, want string
		code          int
	}{
		{`{"id":"a","type":"exec","cmd":"echo hi"}`, `"output":"hi\r\n"`, 0},
		{`{"type":"ping"}`, `"ok":true`, 0},
		{`{"type":"write","path":"f","content_base64":"aGk="}`, `"ok":true`, 0},
		{`{"type":"read","path":"f"}`, `"content_base64":"aGk="`, 0},
		{`{"type":"read","path":"missing"}`, `"code":"FILE_NOT_FOUND"`, 1},
	} {
		cmd := exec.Command(runnertest.Binary, "--client", c.request, "--socket", s.Socket, "--token-file", tokenFile)
		out, _ := cmd.Output()
		if cmd.ProcessState.ExitCode() != c.code || !strings.Contains(string(out), c.want) || bytes.Count(out, []byte("\n")) != 1 {
			t.Errorf("%s: exit %d, %s", c.request, cmd.ProcessState.ExitCode(), out)
		}
	}
}

func TestTheModuleHasNoDependencies(t *testing.T) {
	module, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(module), "require") {
		t.Error("go.mod has a require: the runner uses the standard library only")
	}
}

func TestABadStartIsFatalAndSaysWhy(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct{ config, want string }{
		{`{"token":"short"}`, "token"},
		{`{"token":"` + runnertest.Token + `","colour":"red"}`, "colour"},
		{`{"token":"` + runnertest.Token + `","workdir":"relative"}`, "absolute"},
		{`{"token":"` + runnertest.Token + `","loopback":["nonsense"]}`, "loopback"},
		{`{"token":"` + runnertest.Token + `","egress":{"token":"short"}}`, "egress.token must have"},
		{`{"token":"` + runnertest.Token + `","egress":{"token":"` + runnertest.Token + `"}}`, "egress.token must differ"},
		{`{"token":"` + runnertest.Token + `","egress":{"token":"0123456789abcdef","max_names":65537}}`, "egress.max_names"},
		{`{"token":"` + runnertest.Token + `","egress":{"token":"0123456789abcdef","max_waiting":-1}}`, "egress.max_waiting"},
		{`{"token":"` + runnertest.Token + `","egress":{"token":"0123456789abcdef","ports":[]}}`, "ports"},
		{`nonsense`, "parse configuration"},
	} {
		if err := os.WriteFile(dir+"/config", []byte(c.config), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(runnertest.Binary, "--listen", dir+"/sock", "--config-file", dir+"/config")
		out, _ := cmd.CombinedOutput()
		if cmd.ProcessState.ExitCode() != 1 || !strings.Contains(string(out), c.want) {
			t.Errorf("%s: exit %d, %s", c.config, cmd.ProcessState.ExitCode(), out)
		}
	}
}

func TestARunnerWithoutEgressClosesItsSocket(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/config", []byte(`{"token":"`+runnertest.Token+`","workdir":"`+dir+`"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: dir + "/egress", Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	listener.SetUnlinkOnClose(false)
	file, err := listener.File()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(runnertest.Binary, "--listen", dir+"/sock", "--config-file", dir+"/config", "--egress-fd", "3")
	cmd.ExtraFiles = []*os.File{file}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		cmd.Process.Kill()
		cmd.Wait()
	}()
	file.Close()
	listener.Close()
	canDial := func(path string) bool {
		conn, err := net.Dial("unix", path)
		if err != nil {
			return false
		}
		conn.Close()
		return true
	}
	runnertest.Eventually(t, "the runner listens", func() bool { return canDial(dir + "/sock") })
	if canDial(dir + "/egress") {
		t.Error("the socket for the egress process is open")
	}
}

func TestConfigurationOnTheFirstLineLeavesTheRestForClients(t *testing.T) {
	stdin := strings.NewReader(`{"token":"0123456789abcdef"}` + "\nhello")
	cfg, err := config.Read(&firstLine{from: stdin})
	if err != nil || cfg.Token != "0123456789abcdef" {
		t.Fatalf("got %v, %v", cfg, err)
	}
	rest, _ := io.ReadAll(stdin)
	if string(rest) != "hello" {
		t.Fatalf("the rest is %q", rest)
	}
}

func TestMain(m *testing.M) { runnertest.Main(m) }
