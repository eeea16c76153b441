package shell

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"sandglass/runner/internal/runnertest"
	"sandglass/runner/internal/wire"
)

func TestOutputBeyondTheCapLosesItsMiddle(t *testing.T) {
	s := runnertest.Start(t, nil)
	c := s.Dial()
	for _, max := range []int{0, 1, 10, 11, 1000} {
		got := c.Exec("seq 1000", wire.Fields{"max_output_bytes": max})
		var all strings.Builder
		for i := 1; i <= 1000; i++ {
			fmt.Fprintf(&all, "%d\r\n", i)
		}
		whole := all.String()
		want := whole[:max-max/2] + whole[len(whole)-max/2:]
		if got.Out != want || !got.Truncated || got.Code != 0 {
			t.Errorf("cap %d: %d bytes %.40q, truncated %v", max, len(got.Out), got.Out, got.Truncated)
		}
	}
	if got := c.Exec("seq 1000", wire.Fields{"max_output_bytes": 5000}); got.Truncated {
		t.Error("short output counts as truncated")
	}
}

func TestLargeOutputDoesNotGrowTheRunner(t *testing.T) {
	s := runnertest.Start(t, nil)
	c := s.Dial()
	got := c.Exec("head -c 40000000 /dev/zero | tr '\\0' x", wire.Fields{"timeout_ms": 40000, "max_output_bytes": 100000})
	if got.Code != 0 || !got.Truncated || len(got.Out) != 100000 || strings.Trim(got.Out, "x") != "" {
		t.Errorf("code %d, truncated %v, %d bytes", got.Code, got.Truncated, len(got.Out))
	}
	if peak := s.PeakMemory(); peak > 24<<20 {
		t.Errorf("the runner grew to %d bytes", peak)
	}
}

func TestAMebibyteOfCommandIsQuick(t *testing.T) {
	c := runnertest.Start(t, nil).Dial()
	c.Exec(":")
	started := time.Now()
	got := c.Exec("x='" + strings.Repeat("é\\\n", (1<<20)/4-10) + "'; echo ${#x}")
	if got.Out != fmt.Sprintf("%d\r\n", 3*((1<<20)/4-10)) {
		t.Errorf("got %+v", got)
	}
	if took := time.Since(started); took > 15*time.Second {
		t.Errorf("took %v", took)
	}
}

func TestBackgroundOutputGoesToTheNextCommand(t *testing.T) {
	c := runnertest.Start(t, nil).Dial()
	got := c.Exec("(echo late > /dev/tty; touch done) &").Out
	runnertest.Eventually(t, "the output of the job arrives", func() bool {
		next := c.Exec("test -e done")
		got += next.Out
		return next.Code == 0 && got != ""
	})
	if got != "late\r\n" {
		t.Errorf("got %q", got)
	}
}

func TestStreamedExec(t *testing.T) {
	s := runnertest.Start(t, nil)
	c := s.Dial()
	c.Stream(wire.Fields{"cmd": "echo 1; until test -e go; do sleep 0.01; done; echo 2; echo 3; cd /usr; exit 6"})
	var out strings.Builder
	chunks := 0
	for {
		f, body := c.Receive()
		if f["type"] == "exec_done" {
			if f["exit_code"] != 6.0 || f["shell_exited"] != true {
				t.Errorf("ended with %v", f)
			}
			break
		}
		if chunks++; chunks == 1 {
			s.Dial().Call("write", wire.Fields{"path": "go", "content_base64": ""})
		}
		out.Write(body)
	}
	if out.String() != "1\r\n2\r\n3\r\n" || chunks < 2 {
		t.Errorf("got %q in %d chunks", out.String(), chunks)
	}
	if f, _ := c.Receive(); f != nil {
		t.Errorf("the connection stayed open: %v", f)
	}
}

func TestACommandOutlivesItsStream(t *testing.T) {
	s := runnertest.Start(t, nil)
	c := s.Dial()
	c.Stream(wire.Fields{"cmd": "echo one; seq 100000; touch finished"})
	c.Receive()
	c.Conn.Close()
	if got := s.Dial().Exec("ls finished"); got.Out != "finished\r\n" {
		t.Errorf("got %+v", got)
	}
}

func TestALargeStreamArrivesWhole(t *testing.T) {
	s := runnertest.Start(t, nil)
	c := s.Dial()
	c.Stream(wire.Fields{"cmd": "seq 200000"})
	next, pending := 1, ""
	for {
		f, body := c.Receive()
		if f["type"] != "exec_chunk" {
			break
		}
		lines := strings.Split(pending+string(body), "\r\n")
		pending = lines[len(lines)-1]
		for _, line := range lines[:len(lines)-1] {
			if line != fmt.Sprint(next) {
				t.Fatalf("line %d is %q", next, line)
			}
			next++
		}
	}
	if next != 200001 {
		t.Errorf("ended before line %d", next)
	}
}
