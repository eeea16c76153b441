package main

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
)

// start starts a process and gives its pid.
func (c *client) start(args fields) int {
	c.t.Helper()
	f, _ := c.call("process.start", args)
	p, ok := f["process"].(map[string]any)
	if !ok {
		c.t.Fatalf("start %v: %v", args, f)
	}
	return int(p["pid"].(float64))
}

func (c *client) process(pid int) map[string]any {
	c.t.Helper()
	f, _ := c.call("process.get", fields{"pid": pid})
	p, ok := f["process"].(map[string]any)
	if !ok {
		c.t.Fatalf("get %d: %v", pid, f)
	}
	return p
}

// attach gives a connection that follows the process, its reply read.
func (s *sandbox) attach(pid int, args fields) *client {
	s.t.Helper()
	c := s.dial()
	if args == nil {
		args = fields{}
	}
	args["pid"] = pid
	if f, _ := c.call("process.attach", args); f["process"] == nil {
		s.t.Fatalf("attach %d: %v", pid, f)
	}
	return c
}

// finish reads an attached process to its end.
func (c *client) finish() (stdout, stderr string, exit fields) {
	c.t.Helper()
	for {
		f, body := c.receive()
		switch {
		case f == nil:
			c.t.Fatal("the connection ended without an exit")
		case f["type"] == "stdout":
			stdout += string(body)
		case f["type"] == "stderr":
			stderr += string(body)
		default:
			return stdout, stderr, f
		}
	}
}

func sh(script string) []string { return []string{"sh", "-c", script} }

func TestAProcessHasStreamsOfItsOwn(t *testing.T) {
	s := startRunner(t, nil)
	c := s.dial()
	pid := c.start(fields{"argv": sh("echo out; echo err >&2; cat; exit 5"), "stdin": true, "tag": "mine", "env": fields{"A": "b"}, "cwd": "/usr"})
	a := s.attach(pid, nil)
	a.send(fields{"type": "stdin"}, []byte("typed\n"))
	a.send(fields{"type": "stdin_eof"}, nil)
	stdout, stderr, exit := a.finish()
	if stdout != "out\ntyped\n" || stderr != "err\n" || exit["exit_code"] != 5.0 || exit["timed_out"] != false {
		t.Errorf("got %q, %q, %v", stdout, stderr, exit)
	}
	p := c.process(pid)
	if p["running"] != false || p["exit_code"] != 5.0 || p["tag"] != "mine" || p["cwd"] != "/usr" || p["ended_at_ms"] == nil {
		t.Errorf("afterwards %v", p)
	}
	if stdout, _, _ := s.attach(pid, fields{"stdout_from": 4}).finish(); stdout != "typed\n" {
		t.Errorf("from byte 4 on: %q", stdout)
	}
}

func TestTheEnvironmentOfAProcess(t *testing.T) {
	s := startRunner(t, fields{"env": fields{"CONFIGURED": "1", "BOTH": "config"}})
	pid := s.dial().start(fields{"argv": sh("env; pwd; umask; ulimit -c; cat /proc/self/oom_score_adj; ls /proc/self/fd | wc -l"), "env": fields{"ASKED": "2", "BOTH": "request"}})
	out, _, _ := s.attach(pid, nil).finish()
	for _, want := range []string{"CONFIGURED=1\n", "ASKED=2\n", "BOTH=request\n", "HOME=" + s.dir + "\n", "USER=sandbox\n", "LOGNAME=sandbox\n", "TERM=xterm-256color\n", "LANG=C.UTF-8\n", "\n" + s.dir + "\n0022\n0\n500\n4\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in %q", want, out)
		}
	}
}

func TestAProcessOnATerminal(t *testing.T) {
	s := startRunner(t, nil)
	pid := s.dial().start(fields{"argv": sh("stty size; tty >/dev/null && echo yes; read x; stty size; echo got $x; read y"), "tty": fields{"cols": 81, "rows": 25}})
	a := s.attach(pid, nil)
	a.send(fields{"type": "resize", "cols": 90, "rows": 30}, nil)
	a.send(fields{"type": "stdin"}, []byte("abc\n"))
	a.send(fields{"type": "stdin_eof"}, nil)
	out, _, exit := a.finish()
	if !strings.Contains(out, "yes\r\n") || !strings.Contains(out, "30 90\r\ngot abc\r\n") || exit["exit_code"] != 1.0 {
		t.Errorf("got %q, %v", out, exit)
	}
}

func TestSignalsReachTheProcessOrItsGroup(t *testing.T) {
	s := startRunner(t, nil)
	c := s.dial()
	for _, x := range []struct {
		script, signal string
		group          bool
		code           float64
	}{
		{"echo up; sleep 60; :", "TERM", true, 143}, {"trap 'exit 9' USR1; echo up; while :; do sleep 0.01; done", "USR1", false, 9},
		{"echo up; sleep 60; :", "KILL", true, 137},
	} {
		pid := c.start(fields{"argv": sh(x.script)})
		a := s.attach(pid, nil)
		a.receive()
		if f, _ := c.call("process.signal", fields{"pid": pid, "signal": x.signal, "group": x.group}); f["ok"] != true {
			t.Errorf("signal: %v", f)
		}
		if _, _, exit := a.finish(); exit["exit_code"] != x.code {
			t.Errorf("%s: %v", x.signal, exit)
		}
		eventually(t, "nobody of the group is left to signal", func() bool {
			f, _ := c.call("process.signal", fields{"pid": pid, "signal": "CONT"})
			return f["code"] == codeProcessNotFound
		})
	}
	if f, _ := c.call("process.signal", fields{"pid": 1 << 30, "signal": "TERM"}); f["code"] != codeProcessNotFound {
		t.Errorf("signal to nobody: %v", f)
	}
}

func TestATimeoutEndsTheWholeGroup(t *testing.T) {
	s := startRunner(t, nil)
	pid := s.dial().start(fields{"argv": sh("trap '' TERM; sleep 60 & echo $!; wait; sleep 60"), "timeout_ms": 1000})
	out, _, exit := s.attach(pid, nil).finish()
	if exit["exit_code"] != 124.0 || exit["timed_out"] != true {
		t.Errorf("got %v", exit)
	}
	child := strings.TrimSpace(out)
	if child == "" {
		t.Fatal("it said nothing before its timeout")
	}
	eventually(t, "the child is gone", func() bool {
		_, err := os.Stat("/proc/" + child)
		return err != nil
	})
}

func TestWhatCannotStart(t *testing.T) {
	c := startRunner(t, nil).dial()
	for _, x := range []struct {
		args fields
		code string
	}{
		{fields{"argv": []string{"no-such-program"}}, codeFileNotFound}, {fields{"argv": []string{"/no/such/program"}}, codeFileNotFound},
		{fields{"argv": []string{}}, codeInvalidRequest}, {fields{"argv": []string{""}}, codeInvalidRequest}, {fields{"argv": []string{"/usr"}}, codePermissionDenied},
		{fields{"argv": []string{"true"}, "cwd": "/no/such"}, codeFileNotFound}, {fields{"argv": []string{"true"}, "cwd": "/etc/passwd"}, codeNotADirectory},
		{fields{"argv": []string{"true"}, "user": "nobody"}, codeInvalidRequest}, {fields{"argv": []string{"true"}, "tag": "a b"}, codeInvalidRequest},
		{fields{"argv": []string{"a\x00b"}}, codeInvalidRequest}, {fields{"argv": []string{"true"}, "tty": fields{"cols": 5000, "rows": 1}}, codeInvalidRequest},
	} {
		if f, _ := c.call("process.start", x.args); f["code"] != x.code {
			t.Errorf("%v: %v", x.args, f)
		}
	}
}

func TestAReaderMissesNothingAndASecondAttachGetsTheRecentPart(t *testing.T) {
	s := startRunner(t, nil)
	c := s.dial()
	pid := c.start(fields{"argv": sh("seq 200000"), "hold_output": true})
	var want bytes.Buffer
	for i := 1; i <= 200000; i++ {
		fmt.Fprintln(&want, i)
	}
	a := s.attach(pid, nil)
	next := 0.0
	var got bytes.Buffer
	for {
		f, body := a.receive()
		if f["type"] != "stdout" {
			break
		}
		if f["offset"] != next {
			t.Fatalf("offset %v where %v was next", f["offset"], next)
		}
		next += float64(len(body))
		got.Write(body)
	}
	if !bytes.Equal(got.Bytes(), want.Bytes()) {
		t.Errorf("%d bytes of %d", got.Len(), want.Len())
	}
	recent, _, _ := s.attach(pid, nil).finish()
	if len(recent) != processKept || !bytes.HasSuffix(want.Bytes(), []byte(recent)) {
		t.Errorf("%d bytes were kept", len(recent))
	}
}

func TestOutputThatNobodyReadsIsDropped(t *testing.T) {
	s := startRunner(t, nil)
	c := s.dial()
	pid := c.start(fields{"argv": sh("seq 200000")})
	eventually(t, "the process ends by itself", func() bool { return c.process(pid)["running"] == false })
}

func TestADescendantThatOutlivesTheProcessIsNoHindrance(t *testing.T) {
	s := startRunner(t, nil)
	pid := s.dial().start(fields{"argv": sh("sleep 60 & echo started; exit 3")})
	if out, _, exit := s.attach(pid, nil).finish(); out != "started\n" || exit["exit_code"] != 3.0 {
		t.Errorf("got %q, %v", out, exit)
	}
}

func TestOnlySoManyEndedProcessesAreKept(t *testing.T) {
	c := startRunner(t, nil).dial()
	first := c.start(fields{"argv": []string{"true"}})
	eventually(t, "the first ends", func() bool { return c.process(first)["running"] == false })
	for i := 0; i < endedKept; i++ {
		c.start(fields{"argv": []string{"true"}})
	}
	eventually(t, "the first is forgotten", func() bool {
		f, _ := c.call("process.get", fields{"pid": first})
		return f["code"] == codeProcessNotFound
	})
	if f, _ := c.call("process.list", nil); len(f["processes"].([]any)) > endedKept {
		t.Errorf("%d processes are listed", len(f["processes"].([]any)))
	}
}

func TestDialAndPorts(t *testing.T) {
	s := startRunner(t, nil)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	port := listener.Addr().(*net.TCPAddr).Port
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		var all bytes.Buffer
		all.ReadFrom(conn) // until the client ends its side
		conn.Write(append([]byte("got "), all.Bytes()...))
		conn.Close()
	}()
	c := s.dial()
	if f, _ := c.call("dial", fields{"port": port}); f["ok"] != true {
		t.Fatalf("dial: %v", f)
	}
	c.conn.Write([]byte("raw \x00 bytes"))
	c.conn.(*net.UnixConn).CloseWrite()
	var back bytes.Buffer
	back.ReadFrom(c.in.buf)
	if back.String() != "got raw \x00 bytes" {
		t.Errorf("got %q", back.String())
	}
	f, _ := s.dial().call("ports", nil)
	if !strings.Contains(fmt.Sprint(f["ports"]), fmt.Sprintf("port:%d", port)) {
		t.Errorf("ports: %v", f["ports"])
	}
	listener.Close()
	if f, _ := s.dial().call("dial", fields{"port": port}); f["code"] != codePortClosed {
		t.Errorf("dial a closed port: %v", f)
	}
	if f, _ := s.dial().call("dial", fields{"port": 0}); f["code"] != codeInvalidRequest {
		t.Errorf("dial port 0: %v", f)
	}
}

func TestStats(t *testing.T) {
	c := startRunner(t, nil).dial()
	c.exec("cd /usr")
	c.start(fields{"argv": []string{"sleep", "60"}})
	f, _ := c.call("stats", nil)
	if f["detached"] != 0.0 || f["since_detached_ms"] != nil {
		t.Errorf("no process is detached: %v", f)
	}
	pid := c.start(fields{"argv": []string{"sleep", "60"}, "detach": true})
	if f, _ := c.call("stats", nil); f["processes"] != 2.0 || f["detached"] != 1.0 || f["since_detached_ms"] != nil {
		t.Errorf("one process is detached: %v", f)
	}
	c.call("process.signal", fields{"pid": pid, "signal": "KILL"})
	eventually(t, "the end of the detached process is counted", func() bool {
		f, _ = c.call("stats", nil)
		return f["since_detached_ms"] != nil
	})
	if f["shells"] != 1.0 || f["processes"] != 1.0 || f["cwd"] != "/usr" || f["disk_limit_bytes"].(float64) <= 0 || f["uptime_ms"] == nil {
		t.Errorf("got %v", f)
	}
}
