package main

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
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
		c := m.open()
		c.send(fields{"id": "1", "type": "write", "path": "every"}, every)
		if f, _ := c.receive(); f["ok"] != true {
			t.Fatalf("got %v", f)
		}
		c.send(fields{"id": "2", "type": "read", "path": "every"}, nil)
		if f, body := c.receive(); string(body) != string(every) {
			t.Errorf("got %v %q", f, body)
		}
	})
}

func TestANoisyDeviceIsHeardOnceTheNoiseIsOver(t *testing.T) {
	onEachDevice(t, func(t *testing.T, end *deviceEnd) {
		hello := `{"type":"hello","version":1,"token":"` + testToken + `","mux":true`
		for _, noise := range []string{
			"[    0.000000] Linux version 6.1\r\n", hello + "}\n", hello + `,"nonce":"short"}` + "\n", hello, `{"type":"hello"}`,
			strings.Repeat("x", 3*maxHelloLine) + hello + `,"nonce":"` + nonce(9) + `"}` + "\n", "\xff\x00\x04\x03",
		} {
			if _, err := end.Write([]byte(noise)); err != nil {
				t.Fatal(err)
			}
		}
		c := end.begin(t, nonce(1)).open()
		c.send(fields{"id": "1", "type": "ping"}, nil)
		if f, _ := c.receive(); f["ok"] != true {
			t.Errorf("got %v", f)
		}
	})
}

// A client dies in the midst of a frame, with its stream full and nobody reading. The next one finds the
// processes as they were, and neither it nor they see anything that was not meant for them.
func TestANewClientTakesADeviceOver(t *testing.T) {
	onEachDevice(t, func(t *testing.T, end *deviceEnd) {
		m := end.begin(t, nonce(1))
		c := m.open()
		c.send(fields{"id": "1", "type": "process.start", "argv": []string{"sh", "-c", "cat > taken"}, "stdin": true}, nil)
		started, _ := c.receive()
		pid := started["process"].(map[string]any)["pid"]
		c.send(fields{"id": "2", "type": "exec", "cmd": "cd /tmp; export LEFT=behind"}, nil)
		c.receive()

		feeder := m.open().conn.(*muxConn).number
		for _, part := range []string{fmt.Sprintf(`{"id":"1","type":"process.attach","pid":%v}`+"\n", pid), `{"type":"stdin","bytes":100}` + "\n", "whole "} {
			m.write(frame{muxData, feeder, []byte(part)})
		}
		eventually(t, "the first frame is taken", func() bool { return c.content("taken") == "whole " })
		reader := m.open()
		reader.send(fields{"id": "1", "type": "exec", "cmd": "yes", "shell": "flood", "stream": true}, nil)
		half := frame{muxData, feeder, []byte("half a frame")}.encode()
		if _, err := end.Write(half[:len(half)-3]); err != nil {
			t.Fatal(err)
		}

		again := end.begin(t, nonce(2))
		c = again.open()
		c.send(fields{"id": "1", "type": "exec", "cmd": "echo $LEFT $PWD"}, nil)
		if f, body := c.receive(); string(body) != "behind /tmp\r\n" {
			t.Errorf("got %v %q", f, body)
		}
		c.send(fields{"id": "2", "type": "process.stdin", "pid": pid, "close": true}, []byte("goes on"))
		if f, _ := c.receive(); f["ok"] != true {
			t.Errorf("got %v", f)
		}
		eventually(t, "the rest is taken", func() bool { return c.content("taken") == "whole goes on" })
	})
}

func (c *client) content(path string) string {
	c.send(fields{"id": "r", "type": "read", "path": path}, nil)
	_, body := c.receive()
	return string(body)
}

func TestAWrongTokenOnADeviceIsAnsweredAndTheNextClientServed(t *testing.T) {
	onEachDevice(t, func(t *testing.T, end *deviceEnd) {
		end.SetDeadline(time.Now().Add(patience))
		if answer, _ := end.greet(t, nonce(1), "wrong"); answer["code"] != codeUnauthorized {
			t.Errorf("answer %v", answer)
		}
		end.begin(t, nonce(2))
	})
}

func TestAClientThatBreaksARuleOfADeviceIsToldAndMayBeginAgain(t *testing.T) {
	onEachDevice(t, func(t *testing.T, end *deviceEnd) {
		m := end.begin(t, nonce(1))
		m.write(frame{muxOpen, 1, nil}, frame{9, 1, nil})
		if f, ok := m.read(); !ok || f.kind != muxReset || f.number != 0 {
			t.Errorf("got %+v", f)
		}
		c := end.begin(t, nonce(2)).open()
		c.send(fields{"id": "1", "type": "ping"}, nil)
		if f, _ := c.receive(); f["ok"] != true {
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
	c := (&deviceEnd{r: ourIn, w: ourOut}).begin(t, nonce(1)).open()
	c.send(fields{"id": "1", "type": "exec", "cmd": "echo over stdio"}, nil)
	if f, body := c.receive(); string(body) != "over stdio\r\n" {
		t.Errorf("got %v %q", f, body)
	}
	ourOut.Close()
	if err := <-ended; err != nil {
		t.Errorf("the runner ended with %v", err)
	}
}

// A fifo is at its end while nobody has it open for writing, as a virtio port is while the host's side is closed.
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
	run, err := newRunner(&config{Token: testToken})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- run.serveDevice(&device{in: in, out: out, comesBack: true}) }()
	for i := 1; i <= 3; i++ {
		theirs, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		m := (&deviceEnd{r: ours, w: theirs}).begin(t, nonce(i))
		c := m.open()
		c.send(fields{"id": "1", "type": "ping"}, nil)
		if f, _ := c.receive(); f["ok"] != true {
			t.Errorf("got %v", f)
		}
		theirs.Close()
	}
	in.Close()
	select {
	case <-ended:
	case <-time.After(patience):
		t.Error("the device did not end with its file")
	}
}
