package main

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestOutputBeyondTheCapLosesItsMiddle(t *testing.T) {
	s := startRunner(t, nil)
	c := s.dial()
	for _, max := range []int{0, 1, 10, 11, 1000} {
		got := c.exec("seq 1000", fields{"max_output_bytes": max})
		var all strings.Builder
		for i := 1; i <= 1000; i++ {
			fmt.Fprintf(&all, "%d\r\n", i)
		}
		whole := all.String()
		want := whole[:max-max/2] + whole[len(whole)-max/2:]
		if got.out != want || !got.truncated || got.code != 0 {
			t.Errorf("cap %d: %d bytes %.40q, truncated %v", max, len(got.out), got.out, got.truncated)
		}
	}
	if got := c.exec("seq 1000", fields{"max_output_bytes": 5000}); got.truncated {
		t.Error("short output counts as truncated")
	}
}

func TestLargeOutputDoesNotGrowTheRunner(t *testing.T) {
	s := startRunner(t, nil)
	c := s.dial()
	got := c.exec("head -c 40000000 /dev/zero | tr '\\0' x", fields{"timeout_ms": 40000, "max_output_bytes": 100000})
	if got.code != 0 || !got.truncated || len(got.out) != 100000 || strings.Trim(got.out, "x") != "" {
		t.Errorf("code %d, truncated %v, %d bytes", got.code, got.truncated, len(got.out))
	}
	if peak := s.peakMemory(); peak > 24<<20 {
		t.Errorf("the runner grew to %d bytes", peak)
	}
}

func TestAMebibyteOfCommandIsQuick(t *testing.T) {
	c := startRunner(t, nil).dial()
	c.exec(":")
	started := time.Now()
	got := c.exec("x='" + strings.Repeat("é\\\n", (1<<20)/4-10) + "'; echo ${#x}")
	if got.out != fmt.Sprintf("%d\r\n", 3*((1<<20)/4-10)) {
		t.Errorf("got %+v", got)
	}
	if took := time.Since(started); took > 15*time.Second {
		t.Errorf("took %v", took)
	}
}

func TestBackgroundOutputGoesToTheNextCommand(t *testing.T) {
	c := startRunner(t, nil).dial()
	got := c.exec("(echo late > /dev/tty; touch done) &").out
	eventually(t, "the output of the job arrives", func() bool {
		next := c.exec("test -e done")
		got += next.out
		return next.code == 0 && got != ""
	})
	if got != "late\r\n" {
		t.Errorf("got %q", got)
	}
}

func TestStreamedExec(t *testing.T) {
	s := startRunner(t, nil)
	c := s.dial()
	c.stream(fields{"cmd": "echo 1; until test -e go; do sleep 0.01; done; echo 2; echo 3; cd /usr; exit 6"})
	var out strings.Builder
	chunks := 0
	for {
		f, body := c.receive()
		if f["type"] == "exec_done" {
			if f["exit_code"] != 6.0 || f["shell_exited"] != true {
				t.Errorf("ended with %v", f)
			}
			break
		}
		if chunks++; chunks == 1 {
			s.dial().call("write", fields{"path": "go", "content_base64": ""})
		}
		out.Write(body)
	}
	if out.String() != "1\r\n2\r\n3\r\n" || chunks < 2 {
		t.Errorf("got %q in %d chunks", out.String(), chunks)
	}
	if f, _ := c.receive(); f != nil {
		t.Errorf("the connection stayed open: %v", f)
	}
}

func TestACommandOutlivesItsStream(t *testing.T) {
	s := startRunner(t, nil)
	c := s.dial()
	c.stream(fields{"cmd": "echo one; seq 100000; touch finished"})
	c.receive()
	c.conn.Close()
	if got := s.dial().exec("ls finished"); got.out != "finished\r\n" {
		t.Errorf("got %+v", got)
	}
}

func TestALargeStreamArrivesWhole(t *testing.T) {
	s := startRunner(t, nil)
	c := s.dial()
	c.stream(fields{"cmd": "seq 200000"})
	next, pending := 1, ""
	for {
		f, body := c.receive()
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
