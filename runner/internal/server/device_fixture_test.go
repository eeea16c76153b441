package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"sandglass/runner/internal/mux"
	"sandglass/runner/internal/runnertest"
	"sandglass/runner/internal/sys"
	"sandglass/runner/internal/terminal"
	"sandglass/runner/internal/wire"
)

// A deviceEnd is the client's end of a device: bytes both ways, without connections.
type deviceEnd struct {
	net.Conn // nil: a device has no addresses and is not closed
	r, w     *os.File
}

func (e *deviceEnd) Read(p []byte) (int, error) { return e.r.Read(p) }

func (e *deviceEnd) Write(p []byte) (int, error) { return e.w.Write(p) }

func (e *deviceEnd) SetDeadline(at time.Time) error {
	if err := e.r.SetReadDeadline(at); err != nil {
		return err
	}
	return e.w.SetWriteDeadline(at)
}

// devices are the kinds of devices. Each function starts a runner on one.
var devices = map[string]func(t *testing.T) *deviceEnd{
	"a terminal": func(t *testing.T) *deviceEnd {
		master, slave := terminalPair(t)
		var number int32
		if err := sys.Ioctl(int(sys.RawFD(master)), syscall.TIOCGPTN, unsafe.Pointer(&number)); err != nil {
			t.Fatal(err)
		}
		startOnDevice(t, nil, nil, "--carrier", fmt.Sprintf("/dev/pts/%d", number))
		t.Cleanup(func() { slave.Close() })
		return &deviceEnd{r: master, w: master}
	},
	"a terminal as stdin and stdout": func(t *testing.T) *deviceEnd {
		master, slave := terminalPair(t)
		startOnDevice(t, slave, slave, "--stdio")
		return &deviceEnd{r: master, w: master}
	},
	"pipes as stdin and stdout": func(t *testing.T) *deviceEnd {
		end := &deviceEnd{}
		theirIn, ourOut, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		ourIn, theirOut, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		startOnDevice(t, theirIn, theirOut, "--stdio")
		end.r, end.w = ourIn, ourOut
		return end
	},
	"a socket as stdin and stdout": func(t *testing.T) *deviceEnd {
		fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC|syscall.SOCK_NONBLOCK, 0)
		if err != nil {
			t.Fatal(err)
		}
		theirs, ours := os.NewFile(uintptr(fds[0]), "theirs"), os.NewFile(uintptr(fds[1]), "ours")
		startOnDevice(t, theirs, theirs, "--stdio")
		return &deviceEnd{r: ours, w: ours}
	},
}

func terminalPair(t *testing.T) (master, slave *os.File) {
	t.Helper()
	term, slave, err := terminal.Open(24, 80, nil)
	if err != nil {
		t.Fatal(err)
	}
	return term.File, slave
}

// startOnDevice starts a runner, which takes over the files.
func startOnDevice(t *testing.T, in, out *os.File, args ...string) <-chan error {
	t.Helper()
	dir := t.TempDir()
	config, err := json.Marshal(wire.Fields{"token": runnertest.Token, "workdir": dir, "home": dir})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir+"/config", config, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(runnertest.Binary, append(args, "--config-file", dir+"/config")...)
	said := &bytes.Buffer{}
	cmd.Stderr = said
	if in != nil {
		cmd.Stdin, cmd.Stdout = in, out
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if in != nil {
		in.Close()
		out.Close()
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait(); close(ended) }()
	t.Cleanup(func() {
		cmd.Process.Signal(os.Interrupt)
		stuck := time.AfterFunc(runnertest.Patience, func() { cmd.Process.Kill() })
		<-ended
		stuck.Stop()
		if t.Failed() {
			t.Logf("the runner said: %s", said)
		}
	})
	return ended
}

// filler completes a partial frame of the previous client and is not a frame itself.
var filler = make([]byte, mux.MaxPayload+mux.HeaderBytes)

// begin makes this client the current one of the device.
func (e *deviceEnd) begin(t *testing.T, nonce string) *runnertest.Mux {
	t.Helper()
	e.SetDeadline(time.Now().Add(runnertest.Patience))
	answer, m := e.greet(t, nonce, runnertest.Token)
	if answer["type"] != "ready" {
		t.Fatalf("no ready line but %v", answer)
	}
	return m
}

// greet sends a hello, repeatedly while there is no answer, and returns the answer. Other input is dropped.
func (e *deviceEnd) greet(t *testing.T, nonce, token string) (wire.Fields, *runnertest.Mux) {
	t.Helper()
	answered := make(chan struct{})
	defer close(answered)
	var last atomic.Value
	last.Store("")
	go func() {
		for i := 0; ; i++ {
			this := fmt.Sprintf("%s-%d", nonce, i)
			last.Store(this)
			hello := fmt.Sprintf(`{"type":"hello","version":1,"token":%q,"mux":true,"nonce":%q}`, token, this)
			e.w.Write(append(append([]byte{}, filler...), "\n"+hello+"\n"...))
			select {
			case <-answered:
				return
			case <-time.After(time.Second):
			}
		}
	}()
	in := wire.NewReader(e)
	for {
		line, err := in.Line()
		if err != nil {
			t.Fatalf("no answer to the hello: %v", err)
		}
		answer := wire.Fields{}
		if json.Unmarshal(line, &answer) == nil && answer["nonce"] == last.Load() && answer["type"] != "hello" {
			return answer, &runnertest.Mux{T: t, Conn: e, In: in}
		}
	}
}
