package process

import (
	"bytes"
	"fmt"
	"math/rand"
	"strings"
	"testing"
	"time"

	"sandglass/runner/internal/runnertest"
	"sandglass/runner/internal/wire"
)

// count returns the output of seq.
func count(n int) string {
	var out strings.Builder
	for i := 1; i <= n; i++ {
		fmt.Fprintln(&out, i)
	}
	return out.String()
}

// attachKept attaches with the offsets that the client has stored, and returns the acknowledged ones.
func attachKept(s *runnertest.Sandbox, pid int, stdout, stderr int) (*runnertest.Client, [2]int) {
	s.T.Helper()
	c := s.Dial()
	f, _ := c.Call("process.attach", wire.Fields{"pid": pid, "stdout_from": stdout, "stderr_from": stderr})
	out, isKept := f["stdout_acknowledged"].(float64)
	if !isKept {
		s.T.Fatalf("attach %d: %v", pid, f)
	}
	return c, [2]int{int(out), int(f["stderr_acknowledged"].(float64))}
}

func TestNoByteOfKeptOutputIsLostOrDoubledWhenClientsComeAndGo(t *testing.T) {
	s := runnertest.Start(t, nil)
	const lines = 700_000 // more than four times what is kept
	script := fmt.Sprintf("seq %d >&2 & seq %d; wait; exit 7", lines, lines)
	pid := s.Dial().Start(wire.Fields{"argv": runnertest.Sh(script), "keep_output": true})
	want, seed := count(lines), time.Now().UnixNano()
	random := rand.New(rand.NewSource(seed))
	stored, acknowledged := map[string]*bytes.Buffer{"stdout": {}, "stderr": {}}, [2]int{}
	ended := false
	for client := 0; !ended; client++ {
		a, told := attachKept(s, pid, stored["stdout"].Len(), stored["stderr"].Len())
		if told[0] > acknowledged[0] || told[1] > acknowledged[1] {
			t.Fatalf("seed %d: %v is acknowledged, %v was sent", seed, told, acknowledged)
		}
		budget := random.Intn(2 * len(want) / 20)
		if client >= 20 {
			budget = 4 * len(want)
		}
		for budget > 0 && !ended {
			f, body := a.Receive()
			kind, _ := f["type"].(string)
			into := stored[kind]
			if into == nil {
				if f["exit_code"] != 7.0 {
					t.Fatalf("seed %d: %v", seed, f)
				}
				ended = true
				break
			}
			if f["offset"] != float64(into.Len()) {
				t.Fatalf("seed %d: %s at %v where %d is next", seed, kind, f["offset"], into.Len())
			}
			into.Write(body)
			budget -= len(body)
			if random.Intn(3) == 0 {
				acknowledged = [2]int{stored["stdout"].Len(), stored["stderr"].Len()}
				a.Send(wire.Fields{"type": "ack", "stdout": acknowledged[0], "stderr": acknowledged[1]}, nil)
			}
		}
		a.Conn.Close()
		if ended && client < 20 {
			t.Errorf("seed %d: it ended after %d clients", seed, client)
		}
	}
	for kind, got := range stored {
		if got.String() != want {
			t.Errorf("seed %d: %s has %d bytes instead of %d", seed, kind, got.Len(), len(want))
		}
	}
}

func TestKeptOutputIsThereAfterTheExitUntilItIsAcknowledged(t *testing.T) {
	s := runnertest.Start(t, nil)
	c := s.Dial()
	pid := c.Start(wire.Fields{"argv": runnertest.Sh("seq 100000; echo trouble >&2; exit 3"), "keep_output": true})
	runnertest.Eventually(t, "the process ends", func() bool { return c.Process(pid)["running"] == false })
	want := count(100_000)
	for i := 0; i < 2; i++ {
		a, _ := attachKept(s, pid, 0, 0)
		if out, err, exit := a.Finish(); out != want || err != "trouble\n" || exit["exit_code"] != 3.0 {
			t.Errorf("%d bytes, %q, %v", len(out), err, exit)
		}
		a.Conn.Close()
	}
	a, _ := attachKept(s, pid, len(want), 8)
	a.Send(wire.Fields{"type": "ack", "stdout": 1000}, nil)
	a.Send(wire.Fields{"type": "ack", "stderr": 8}, nil)
	a.Finish()
	a.Conn.Close()
	runnertest.Eventually(t, "the acknowledgements arrive", func() bool {
		b, told := attachKept(s, pid, 0, 0)
		defer b.Conn.Close()
		return told == [2]int{1000, 8}
	})
	b, _ := attachKept(s, pid, 0, 0)
	if f, body := b.Receive(); f["type"] != "stdout" || f["offset"] != 1000.0 || !strings.HasPrefix(want[1000:], string(body)) {
		t.Errorf("got %v", f)
	}
	if out, err, _ := b.Finish(); !strings.HasSuffix(want, out) || err != "" {
		t.Errorf("got %d bytes, %q", len(out), err)
	}
}

func TestAProgramThatWaitsForAnAcknowledgementCanBeEnded(t *testing.T) {
	s := runnertest.Start(t, nil)
	c := s.Dial()
	for _, x := range []struct {
		timeoutMS int
		signal    string
		code      float64
	}{{5000, "", 124}, {0, "TERM", 143}, {0, "KILL", 137}} {
		pid := c.Start(wire.Fields{"argv": []string{"seq", "1000000"}, "keep_output": true, "timeout_ms": x.timeoutMS})
		a, _ := attachKept(s, pid, 0, 0)
		for n := 0; n < ackBytes; {
			f, body := a.Receive()
			if f["type"] != "stdout" {
				t.Fatalf("%+v: %v after %d bytes", x, f, n)
			}
			n += len(body)
		}
		a.Conn.Close()
		if x.signal != "" {
			c.Call("process.signal", wire.Fields{"pid": pid, "signal": x.signal})
		}
		runnertest.Eventually(t, "the process ends", func() bool { return c.Process(pid)["exit_code"] == x.code })
		// All that it wrote arrives without an acknowledgement: also what was in the pipe, if it had come that far.
		b, _ := attachKept(s, pid, 0, 0)
		out, _, exit := b.Finish()
		if exit["exit_code"] != x.code || len(out) < ackBytes || !strings.HasPrefix(count(1_000_000), out) {
			t.Errorf("%+v: %d bytes, %v", x, len(out), exit)
		}
		b.Conn.Close()
	}
}

func TestAProcessIgnoresAcknowledgementsOfBytesItDidNotWrite(t *testing.T) {
	s := runnertest.Start(t, nil)
	c := s.Dial()
	pid := c.Start(wire.Fields{"argv": runnertest.Sh("echo out; echo err >&2; read line"), "stdin": true, "keep_output": true})
	a, _ := attachKept(s, pid, 0, 0)
	for n := 0; n < len("out\nerr\n"); {
		_, body := a.Receive()
		n += len(body)
	}
	for _, ack := range []wire.Fields{{}, {"stdout": -1, "stderr": -5}, {"stdout": 5}, {"stderr": int64(1) << 62}, {"stdout": 3}, {"stdout": 2, "stderr": nil}} {
		ack["type"] = "ack"
		a.Send(ack, nil)
	}
	for _, ack := range []wire.Fields{{"stdout": 1.5}, {"stdout": "4"}, {"stderr": 1e30}} {
		ack["type"] = "ack"
		b, _ := attachKept(s, pid, 0, 0)
		b.Send(ack, nil)
		if _, _, f := b.Finish(); f["code"] != wire.CodeInvalidRequest {
			t.Errorf("%v: %v", ack, f)
		}
	}
	a.Send(wire.Fields{"type": "stdin"}, []byte("\n")) // it ends after it has seen all of them
	a.Finish()
	if _, told := attachKept(s, pid, 0, 0); told != [2]int{3, 0} {
		t.Errorf("%v is acknowledged", told)
	}
}

func TestOnlyAProcessThatKeepsItsOutputTakesAcknowledgements(t *testing.T) {
	s := runnertest.Start(t, nil)
	c := s.Dial()
	if f, _ := c.Call("process.start", wire.Fields{"argv": []string{"true"}, "keep_output": true, "hold_output": true}); f["code"] != wire.CodeInvalidRequest {
		t.Errorf("both: %v", f)
	}
	pid := c.Start(wire.Fields{"argv": []string{"sleep", "60"}})
	a := s.Dial()
	if f, _ := a.Call("process.attach", wire.Fields{"pid": pid}); f["stdout_acknowledged"] != nil {
		t.Errorf("got %v", f)
	}
	a.Send(wire.Fields{"type": "ack", "stdout": 0}, nil)
	if _, _, f := a.Finish(); f["code"] != wire.CodeInvalidRequest {
		t.Errorf("got %v", f)
	}
}

func TestAPromptIsWrittenAndEndedInOneRequest(t *testing.T) {
	s := runnertest.Start(t, nil)
	c := s.Dial()
	prompt := strings.Repeat("0123456789abcdef", 40<<10/16)
	pid := c.Start(wire.Fields{"argv": []string{"cat"}, "stdin": true, "keep_output": true})
	c.Send(wire.Fields{"id": "p", "type": "process.stdin", "pid": pid, "close": true}, []byte(prompt))
	if f, _ := c.Receive(); f["ok"] != true {
		t.Fatalf("got %v", f)
	}
	a, _ := attachKept(s, pid, 0, 0)
	if out, _, exit := a.Finish(); out != prompt || exit["exit_code"] != 0.0 {
		t.Errorf("%d bytes, %v", len(out), exit)
	}
}

func TestAProcessWithUnacknowledgedOutputIsForgottenLast(t *testing.T) {
	s := runnertest.Start(t, nil)
	c := s.Dial()
	kept := c.Start(wire.Fields{"argv": []string{"echo", "result"}, "keep_output": true})
	runnertest.Eventually(t, "it ends", func() bool { return c.Process(kept)["running"] == false })
	runMore := func() {
		t.Helper()
		first := c.Start(wire.Fields{"argv": []string{"true"}})
		runnertest.Eventually(t, "the next ends", func() bool { return c.Process(first)["running"] == false })
		for i := 0; i < keptProcesses; i++ {
			c.Start(wire.Fields{"argv": []string{"true"}})
		}
		runnertest.Eventually(t, "the next is forgotten", func() bool {
			f, _ := c.Call("process.get", wire.Fields{"pid": first})
			return f["code"] == wire.CodeProcessNotFound
		})
	}
	runMore()
	a, _ := attachKept(s, kept, 0, 0)
	f, body := a.Receive()
	if string(body) != "result\n" {
		t.Fatalf("got %v", f)
	}
	a.Send(wire.Fields{"type": "ack", "stdout": len(body)}, nil)
	a.Finish()
	a.Conn.Close()
	runMore()
	if f, _ := c.Call("process.get", wire.Fields{"pid": kept}); f["code"] != wire.CodeProcessNotFound {
		t.Errorf("got %v", f)
	}
}
