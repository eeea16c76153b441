package server

import (
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"sandglass/runner/internal/runnertest"
	"sandglass/runner/internal/wire"
)

// resolver is the start of a Python program that can ask for the address of a name.
const resolver = `
import socket
def resolve(name):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.settimeout(20)
    labels = b"".join(bytes([len(l)]) + l.encode() for l in name.split("."))
    s.sendto(b"\0\7\1\0\0\1\0\0\0\0\0\0" + labels + b"\0\0\1\0\1", ("127.0.0.53", 53))
    reply = s.recv(512)
    return socket.inet_ntoa(reply[-4:]) if reply[3] & 15 == 0 else "error %d" % (reply[3] & 15)
`

var egressConfig = wire.Fields{"egress": wire.Fields{"token": egressToken, "max_names": 100, "max_waiting": 100}}

// controlOf opens the control stream of a sandbox.
func controlOf(t *testing.T, s *runnertest.Sandbox) *runnertest.Client {
	t.Helper()
	c := (&runnertest.Sandbox{T: t, Socket: s.EgressSocket}).DialRaw()
	if answer := greet(c, egressToken, false); answer["type"] != "ready" {
		t.Fatalf("no ready line but %v", answer)
	}
	if reply, _ := c.Call("control", nil); reply["ok"] != true {
		t.Fatalf("got %v", reply)
	}
	c.Send(wire.Fields{"type": "config", "generation": 1}, nil)
	return c
}

// allow answers the question about a name.
func allow(t *testing.T, control *runnertest.Client, name string, ports ...int) {
	t.Helper()
	m, _ := control.Receive()
	if m["type"] != "resolve" || m["name"] != name {
		t.Fatalf("got %v", m)
	}
	control.Send(wire.Fields{"type": "resolved", "query": m["query"], "generation": 1, "answer": "address", "ports": ports}, nil)
}

func TestAProgramOfASandboxReachesTheEgressProcess(t *testing.T) {
	s := runnertest.StartPID1(t, egressConfig)
	control := controlOf(t, s)
	shell := s.Dial()
	shell.Request("exec", wire.Fields{"cmd": `python3 -c '` + resolver + `
a = resolve("example.com")
c = socket.create_connection((a, 443))
c.sendall(b"hello")
print(a, c.makefile().read())'`})
	allow(t, control, "example.com", 80, 443)
	m, _ := control.Receive()
	if m["type"] != "connection" || m["name"] != "example.com" || m["port"] != 443.0 || m["via"] != "name" {
		t.Fatalf("got %v", m)
	}
	stream := (&runnertest.Sandbox{T: t, Socket: s.EgressSocket}).DialRaw()
	greet(stream, egressToken, false)
	if reply, _ := stream.Call("take", wire.Fields{"connection": m["connection"]}); reply["ok"] != true {
		t.Fatalf("got %v", reply)
	}
	greeting := make([]byte, 5)
	io.ReadFull(stream.In.Buf, greeting)
	stream.Conn.Write(append(greeting, "; bye"...))
	stream.Conn.Close()
	f, body := shell.Receive()
	if got := runnertest.AsResult(t, f, body); got.Out != "127.64.0.2 hello; bye\r\n" {
		t.Errorf("the program printed %q", got.Out)
	}

	if f, _ := s.Dial().Call("ports", nil); len(f["ports"].([]any)) != 0 {
		t.Errorf("ports of the runner are listed: %v", f["ports"])
	}
	for _, port := range []int{53, 80, 443, 1080, 3128} {
		if f, _ := s.Dial().Call("dial", wire.Fields{"port": port}); f["code"] != wire.CodePortClosed {
			t.Errorf("dial %d: %v", port, f)
		}
	}
}

func TestAPortThatAProgramHasBoundOnAllAddressesIsReported(t *testing.T) {
	s := runnertest.StartPID1(t, egressConfig)
	control := controlOf(t, s)
	shell := s.Dial()
	shell.Request("exec", wire.Fields{"cmd": `python3 -c '` + resolver + `
s = socket.socket()
s.bind(("0.0.0.0", 8443))
s.listen()
print(resolve("example.com"))
s.close()
print(resolve("example.com"))'`})
	allow(t, control, "example.com", 8443)
	if m, _ := control.Receive(); m["type"] != "bind_failed" || m["port"] != 8443.0 || !strings.Contains(m["message"].(string), "in use") {
		t.Errorf("got %v", m)
	}
	f, body := shell.Receive()
	if got := runnertest.AsResult(t, f, body); got.Out != "error 2\r\n127.64.0.2\r\n" {
		t.Errorf("the program printed %q", got.Out)
	}
}

func TestWithoutEgressNothingListens(t *testing.T) {
	s := runnertest.StartPID1(t, nil)
	c := s.Dial()
	if got := c.Exec("grep -c '^ *[0-9]' /proc/net/tcp /proc/net/udp"); got.Out != "/proc/net/tcp:0\r\n/proc/net/udp:0\r\n" {
		t.Errorf("got %q", got.Out)
	}
}

func TestAnAddressOfEgressThatIsTakenFailsTheStart(t *testing.T) {
	runnertest.NeedsRoot(t)
	dir := t.TempDir()
	cfg, err := json.Marshal(wire.Fields{"token": runnertest.Token, "workdir": dir, "home": dir, "egress": egressConfig["egress"]})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir+"/config", cfg, 0o600); err != nil {
		t.Fatal(err)
	}
	const takeFirst = `
import socket, subprocess, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("127.0.0.53", 53))
sys.exit(subprocess.run(sys.argv[1:], timeout=20).returncode)`
	cmd := exec.Command("unshare", "--net", "python3", "-c", takeFirst, runnertest.Binary, "--listen", dir+"/sock", "--config-file", dir+"/config")
	said, err := cmd.CombinedOutput()
	if err == nil || cmd.ProcessState.ExitCode() != 1 || !strings.Contains(string(said), "runner: open DNS server: listen udp4 127.0.0.53:53") {
		t.Errorf("%v: %s", err, said)
	}
}
