package server

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"sandglass/runner/internal/config"
	"sandglass/runner/internal/mux"
	"sandglass/runner/internal/runnertest"
	"sandglass/runner/internal/wire"
)

func onEachDevice(t *testing.T, check func(t *testing.T, end *deviceEnd)) {
	for name, open := range devices {
		open := open
		t.Run(name, func(t *testing.T) { check(t, open(t)) })
	}
}

func nonce(n int) string { return fmt.Sprintf("nonce-of-client-%04d", n) }

func TestADeviceCarriesEveryByte(t *testing.T) {
	onEachDevice(t, func(t *testing.T, end *deviceEnd) {
		m := end.begin(t, nonce(1))
		every := make([]byte, 256*4)
		for i := range every {
			every[i] = byte(i)
		}
		c := m.Open()
		c.Send(wire.Fields{"id": "1", "type": "write", "path": "every"}, every)
		if f, _ := c.Receive(); f["ok"] != true {
			t.Fatalf("got %v", f)
		}
		c.Send(wire.Fields{"id": "2", "type": "read", "path": "every"}, nil)
		if f, body := c.Receive(); string(body) != string(every) {
			t.Errorf("got %v %q", f, body)
		}
	})
}

func TestANoisyDeviceIsHeardOnceTheNoiseIsOver(t *testing.T) {
	onEachDevice(t, func(t *testing.T, end *deviceEnd) {
		hello := `{"type":"hello","version":1,"token":"` + runnertest.Token + `","mux":true`
		for _, noise := range []string{
			"[    0.000000] Linux version 6.1\r\n", hello + "}\n", hello + `,"nonce":"short"}` + "\n", hello, `{"type":"hello"}`,
			strings.Repeat("x", 3*maxHelloLine) + hello + `,"nonce":"` + nonce(9) + `"}` + "\n", "\xff\x00\x04\x03",
		} {
			if _, err := end.Write([]byte(noise)); err != nil {
				t.Fatal(err)
			}
		}
		c := end.begin(t, nonce(1)).Open()
		c.Send(wire.Fields{"id": "1", "type": "ping"}, nil)
		if f, _ := c.Receive(); f["ok"] != true {
			t.Errorf("got %v", f)
		}
	})
}

// A client dies in the middle of a frame, while its stream is full and not being read. The next client finds the processes
// unchanged, and receives nothing that was meant for the previous one.
func TestANewClientTakesADeviceOver(t *testing.T) {
	onEachDevice(t, func(t *testing.T, end *deviceEnd) {
		m := end.begin(t, nonce(1))
		c := m.Open()
		c.Send(wire.Fields{"id": "1", "type": "process.start", "argv": []string{"sh", "-c", "cat > taken"}, "stdin": true}, nil)
		started, _ := c.Receive()
		pid := started["process"].(map[string]any)["pid"]
		c.Send(wire.Fields{"id": "2", "type": "exec", "cmd": "cd /tmp; export LEFT=behind"}, nil)
		c.Receive()

		feeder := m.Open().Conn.(*runnertest.MuxConn).Number
		for _, part := range []string{fmt.Sprintf(`{"id":"1","type":"process.attach","pid":%v}`+"\n", pid), `{"type":"stdin","bytes":100}` + "\n", "whole "} {
			m.Write(runnertest.NewFrame(mux.Data, feeder, []byte(part)))
		}
		runnertest.Eventually(t, "the first frame is taken", func() bool { return c.Content("taken") == "whole " })
		reader := m.Open()
		reader.Send(wire.Fields{"id": "1", "type": "exec", "cmd": "yes", "shell": "flood", "stream": true}, nil)
		half := runnertest.NewFrame(mux.Data, feeder, []byte("half a frame")).Encode()
		if _, err := end.Write(half[:len(half)-3]); err != nil {
			t.Fatal(err)
		}

		again := end.begin(t, nonce(2))
		c = again.Open()
		c.Send(wire.Fields{"id": "1", "type": "exec", "cmd": "echo $LEFT $PWD"}, nil)
		if f, body := c.Receive(); string(body) != "behind /tmp\r\n" {
			t.Errorf("got %v %q", f, body)
		}
		c.Send(wire.Fields{"id": "2", "type": "process.stdin", "pid": pid, "close": true}, []byte("goes on"))
		if f, _ := c.Receive(); f["ok"] != true {
			t.Errorf("got %v", f)
		}
		runnertest.Eventually(t, "the rest is taken", func() bool { return c.Content("taken") == "whole goes on" })
	})
}

func TestAWrongTokenOnADeviceIsAnsweredAndTheNextClientServed(t *testing.T) {
	onEachDevice(t, func(t *testing.T, end *deviceEnd) {
		end.SetDeadline(time.Now().Add(runnertest.Patience))
		if answer, _ := end.greet(t, nonce(1), "wrong"); answer["code"] != wire.CodeUnauthorized {
			t.Errorf("answer %v", answer)
		}
		end.begin(t, nonce(2))
	})
}

func TestAClientThatBreaksARuleOfADeviceIsToldAndMayBeginAgain(t *testing.T) {
	onEachDevice(t, func(t *testing.T, end *deviceEnd) {
		m := end.begin(t, nonce(1))
		m.Write(runnertest.NewFrame(mux.Open, 1, nil), runnertest.NewFrame(9, 1, nil))
		if f, ok := m.Read(); !ok || f.Kind != mux.Reset || f.Number != 0 {
			t.Errorf("got %+v", f)
		}
		c := end.begin(t, nonce(2)).Open()
		c.Send(wire.Fields{"id": "1", "type": "ping"}, nil)
		if f, _ := c.Receive(); f["ok"] != true {
			t.Errorf("got %v", f)
		}
	})
}

func TestTheSandboxEndsWithItsStdin(t *testing.T) {
	theirIn, ourOut, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	ourIn, theirOut, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	ended := startOnDevice(t, theirIn, theirOut, "--stdio")
	c := (&deviceEnd{r: ourIn, w: ourOut}).begin(t, nonce(1)).Open()
	c.Send(wire.Fields{"id": "1", "type": "exec", "cmd": "echo over stdio"}, nil)
	if f, body := c.Receive(); string(body) != "over stdio\r\n" {
		t.Errorf("got %v %q", f, body)
	}
	ourOut.Close()
	if err := <-ended; err != nil {
		t.Errorf("the runner ended with %v", err)
	}
}

// A fifo is at its end while no process has it open for writing, like a virtio port while the host's side is closed.
func TestADeviceWaitsForTheOtherSideToComeBack(t *testing.T) {
	path := t.TempDir() + "/fifo"
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	in, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	ours, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	srv, err := New(&config.Config{Token: runnertest.Token})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- srv.endpoint.serveDevice(&mux.Device{In: in, Out: out, Reconnects: true}) }()
	for i := 1; i <= 3; i++ {
		theirs, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		m := (&deviceEnd{r: ours, w: theirs}).begin(t, nonce(i))
		c := m.Open()
		c.Send(wire.Fields{"id": "1", "type": "ping"}, nil)
		if f, _ := c.Receive(); f["ok"] != true {
			t.Errorf("got %v", f)
		}
		theirs.Close()
	}
	in.Close()
	select {
	case <-ended:
	case <-time.After(runnertest.Patience):
		t.Error("the device did not end with its file")
	}
}
