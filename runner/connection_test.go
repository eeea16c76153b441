package main

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestTheFirstLineMustBeAGoodHello(t *testing.T) {
	s := startRunner(t, nil)
	for _, c := range []struct{ title, line, code string }{
		{"a wrong token", `{"type":"hello","version":1,"token":"wrong"}`, codeUnauthorized},
		{"no token", `{"type":"hello","version":1}`, codeUnauthorized},
		{"another version", `{"type":"hello","version":2,"token":"` + testToken + `"}`, codeInvalidRequest},
		{"a request", `{"id":"1","type":"ping"}`, codeInvalidRequest},
		{"no JSON", `GET / HTTP/1.1`, codeInvalidRequest},
		{"too long a line", strings.Repeat("x", maxLineBytes+2), codeInvalidRequest},
	} {
		t.Run(c.title, func(t *testing.T) {
			client := s.dialRaw()
			go client.conn.Write([]byte(c.line + "\n"))
			if f, _ := client.receive(); f["type"] != "error" || f["code"] != c.code {
				t.Errorf("answer: %v", f)
			}
			if f, _ := client.receive(); f != nil {
				t.Errorf("the connection stayed open: %v", f)
			}
		})
	}
}

func TestASilentClientIsCutOff(t *testing.T) {
	t.Parallel()
	s := startRunner(t, nil)
	if f, _ := s.dialRaw().receive(); f != nil {
		t.Errorf("got %v", f)
	}
}

func TestTheBootIDStaysWhileTheRunnerLives(t *testing.T) {
	s := startRunner(t, nil)
	ids := map[any]bool{}
	for i := 0; i < 2; i++ {
		c := s.dialRaw()
		c.send(fields{"type": "hello", "version": 1, "token": testToken}, nil)
		ready, _ := c.receive()
		if ready["ready"] != true || ready["version"] != 1.0 || ready["pid"] == nil {
			t.Errorf("ready is %v", ready)
		}
		ids[ready["boot_id"]] = true
	}
	if len(ids) != 1 {
		t.Errorf("boot ids %v", ids)
	}
}

func TestBadRequestsAreAnsweredAndBoundsCloseTheConnection(t *testing.T) {
	s := startRunner(t, nil)
	for _, c := range []struct {
		title, line, code string
		closes            bool
	}{
		{"an unknown type", `{"id":"1","type":"nonsense"}`, codeInvalidRequest, false},
		{"an unknown type with a body", `{"id":"1","type":"nonsense","bytes":3}` + "\nabc", codeInvalidRequest, false},
		{"no id", `{"type":"ping"}`, codeInvalidRequest, true},
		{"too long an id", `{"id":"` + strings.Repeat("x", 65) + `","type":"ping"}`, codeInvalidRequest, true},
		{"no object", `[]`, codeInvalidRequest, true},
		{"a negative body", `{"id":"1","type":"ping","bytes":-1}`, codeInvalidRequest, true},
		{"too large a body", `{"id":"1","type":"process.stdin","bytes":67108865}`, codeBodyTooLarge, true},
		{"a line of 9 MiB", `{"id":"1","type":"exec","cmd":"` + strings.Repeat("x", 9<<20) + `"}`, codeInvalidRequest, true},
	} {
		t.Run(c.title, func(t *testing.T) {
			client := s.dial()
			line := c.line
			if !strings.Contains(line, "\n") {
				line += "\n"
			}
			go client.conn.Write([]byte(line))
			if f, _ := client.receive(); f["type"] != "error" || f["code"] != c.code {
				t.Errorf("answer: %v", f)
			}
			if c.closes {
				if f, _ := client.receive(); f != nil {
					t.Errorf("the connection stayed open: %v", f)
				}
				return
			}
			if f, _ := client.call("ping", nil); f["ok"] != true {
				t.Errorf("afterwards: %v", f)
			}
		})
	}
}

func TestAStreamNeedsAConnectionOfItsOwn(t *testing.T) {
	c := startRunner(t, nil).dial()
	c.call("ping", nil)
	if f, _ := c.call("exec", fields{"cmd": "echo", "stream": true}); f["code"] != codeInvalidRequest {
		t.Errorf("answer: %v", f)
	}
}

func TestRequestsOfOneConnectionRunAtOnce(t *testing.T) {
	c := startRunner(t, nil).dial()
	c.request("exec", fields{"cmd": "until test -e go; do sleep 0.01; done", "shell": "a"})
	c.request("exec", fields{"cmd": "touch go", "shell": "b"})
	for i := 0; i < 2; i++ {
		if f, body := c.receive(); asResult(t, f, body).code != 0 {
			t.Errorf("got %v", f)
		}
	}
}

func TestAProcessThatDoesNotReadHoldsUpNobody(t *testing.T) {
	c := startRunner(t, nil).dial()
	f, _ := c.call("process.start", fields{"argv": []string{"sleep", "60"}, "stdin": true})
	pid := f["process"].(map[string]any)["pid"]
	c.send(fields{"id": "feed", "type": "process.stdin", "pid": pid}, bytes.Repeat([]byte("x"), 1<<20))
	if f, _ := c.call("ping", nil); f["ok"] != true {
		t.Errorf("got %v", f)
	}
}

func TestTheOneShotClient(t *testing.T) {
	s := startRunner(t, nil)
	tokenFile := s.dir + "/token"
	if err := os.WriteFile(tokenFile, []byte(testToken+"\n"), 0o600); err != nil {
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
		cmd := exec.Command(runnerBinary, "--client", c.request, "--socket", s.socket, "--token-file", tokenFile)
		out, _ := cmd.Output()
		if cmd.ProcessState.ExitCode() != c.code || !strings.Contains(string(out), c.want) || bytes.Count(out, []byte("\n")) != 1 {
			t.Errorf("%s: exit %d, %s", c.request, cmd.ProcessState.ExitCode(), out)
		}
	}
}

// The contract's table must know every code that the runner sends.
func TestEveryErrorCodeIsInTheContract(t *testing.T) {
	tables, err := filepath.Glob("../packages/contract/src/errors/*.ts")
	if err != nil {
		t.Fatal(err)
	}
	var contract strings.Builder
	for _, table := range tables {
		rows, err := os.ReadFile(table)
		if err != nil {
			t.Fatal(err)
		}
		contract.Write(rows)
	}
	source, err := os.ReadFile("errors.go")
	if err != nil {
		t.Fatal(err)
	}
	codes := regexp.MustCompile(`code\w+\s+= "([A-Z_]+)"`).FindAllStringSubmatch(string(source), -1)
	if len(codes) < 20 {
		t.Fatalf("found %d codes", len(codes))
	}
	for _, code := range codes {
		if !strings.Contains(contract.String(), "\n  "+code[1]+": {") {
			t.Errorf("%s is not in the contract", code[1])
		}
	}
}

func TestTheModuleHasNoDependencies(t *testing.T) {
	module, err := os.ReadFile("go.mod")
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
		{`{"token":"` + testToken + `","colour":"red"}`, "colour"},
		{`{"token":"` + testToken + `","workdir":"relative"}`, "absolute"},
		{`{"token":"` + testToken + `","loopback":["nonsense"]}`, "loopback"},
		{`nonsense`, "parse configuration"},
	} {
		if err := os.WriteFile(dir+"/config", []byte(c.config), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(runnerBinary, "--listen", dir+"/sock", "--config-file", dir+"/config")
		out, _ := cmd.CombinedOutput()
		if cmd.ProcessState.ExitCode() != 1 || !strings.Contains(string(out), c.want) {
			t.Errorf("%s: exit %d, %s", c.config, cmd.ProcessState.ExitCode(), out)
		}
	}
}

func socketPair(t *testing.T) (net.Conn, *os.File) {
	t.Helper()
	listener, err := net.Listen("unix", t.TempDir()+"/pair")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	ours, err := net.Dial("unix", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	accepted, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer accepted.Close()
	theirs, err := accepted.(*net.UnixConn).File()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ours.Close() })
	return ours, theirs
}
