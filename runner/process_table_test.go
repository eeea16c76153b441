package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// table reads the whole process table.
func (s *sandbox) table() []tableRow {
	s.t.Helper()
	c := s.dial()
	c.call("process.table", nil)
	var rows []tableRow
	for {
		f, body := c.receive()
		switch {
		case f == nil:
			s.t.Fatal("the connection ended before the table")
		case f["type"] == "done":
			return rows
		}
		var page []tableRow
		if err := json.Unmarshal(body, &page); err != nil {
			s.t.Fatal(err)
		}
		rows = append(rows, page...)
	}
}

// row waits for a process with this command line.
func (s *sandbox) row(command string) tableRow {
	s.t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		for _, row := range s.table() {
			if row.Command == command {
				return row
			}
		}
	}
	s.t.Fatalf("no process %q in %v", command, s.table())
	return tableRow{}
}

func TestTheTableHasEveryProcessButTheRunner(t *testing.T) {
	s := startRunner(t, nil)
	c := s.dial()
	pid := c.start(fields{"argv": []string{"sleep", "1001"}, "tag": "mine"})
	c.exec("sleep 1002 &")
	tagged, job := s.row("sleep 1001"), s.row("sleep 1002")
	if tagged.PID != pid || tagged.Tag != "mine" || tagged.User != "sandbox" || tagged.MemoryBytes <= 0 {
		t.Errorf("got %+v", tagged)
	}
	if age := time.Now().UnixMilli() - tagged.CreatedAtMS; age < -1000 || age > patience.Milliseconds() {
		t.Errorf("the process is %d ms old", age)
	}
	var shell tableRow
	for _, row := range s.table() {
		if row.PID == s.cmd.Process.Pid {
			t.Errorf("the runner is in its table: %+v", row)
		}
		if row.PID == job.Parent {
			shell = row
		}
	}
	if job.Tag != "" || shell.Shell != "main" {
		t.Errorf("job %+v, shell %+v", job, shell)
	}
}

func TestACommandLineInTheTableIsBoundedText(t *testing.T) {
	s := startRunner(t, nil)
	argv := []string{"sh", "-c", "read line; exit", "\x1b]0;name\x07", strings.Repeat("x", 3*commandBytes)}
	pid := s.dial().start(fields{"argv": argv, "stdin": true})
	if row := s.row(strings.Join(argv, " ")[:commandBytes]); row.PID != pid {
		t.Errorf("process %d instead of %d", row.PID, pid)
	}
}

func TestAnyProcessOfTheSandboxCanBeSignalled(t *testing.T) {
	s := startRunner(t, nil)
	c := s.dial()
	c.exec("sleep 1003 & sleep 1004 &")
	first, second := s.row("sleep 1003"), s.row("sleep 1004")
	if f, _ := c.call("process.signal", fields{"pid": first.PID, "signal": "KILL"}); f["ok"] != true {
		t.Fatalf("got %v", f)
	}
	if out := c.exec("wait %1; echo $?; kill -0 %2 && echo alive").out; !strings.HasSuffix(out, "137\r\nalive\r\n") {
		t.Errorf("got %q", out)
	}
	for _, pid := range []int{first.PID, 1, s.cmd.Process.Pid, 1 << 22} {
		if f, _ := c.call("process.signal", fields{"pid": pid, "signal": "TERM"}); f["code"] != codeProcessNotFound {
			t.Errorf("signal %d: %v", pid, f)
		}
	}
	if f, _ := c.call("process.signal", fields{"pid": second.PID, "signal": "SEGV"}); f["code"] != codeInvalidRequest {
		t.Errorf("an unknown signal: %v", f)
	}
}
