package process

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"sandglass/runner/internal/runnertest"
	"sandglass/runner/internal/wire"
)

// tableOf reads the whole process table.
func tableOf(s *runnertest.Sandbox) []tableRow {
	s.T.Helper()
	c := s.Dial()
	c.Call("process.table", nil)
	var rows []tableRow
	for {
		f, body := c.Receive()
		switch {
		case f == nil:
			s.T.Fatal("the connection ended before the table")
		case f["type"] == "done":
			return rows
		}
		var page []tableRow
		if err := json.Unmarshal(body, &page); err != nil {
			s.T.Fatal(err)
		}
		rows = append(rows, page...)
	}
}

// rowOf waits for a process with this command line.
func rowOf(s *runnertest.Sandbox, command string) tableRow {
	s.T.Helper()
	for deadline := time.Now().Add(runnertest.Patience); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		for _, row := range tableOf(s) {
			if row.Command == command {
				return row
			}
		}
	}
	s.T.Fatalf("no process %q in %v", command, tableOf(s))
	return tableRow{}
}

func TestTheTableHasEveryProcessButTheRunner(t *testing.T) {
	s := runnertest.Start(t, nil)
	c := s.Dial()
	pid := c.Start(wire.Fields{"argv": []string{"sleep", "1001"}, "tag": "mine"})
	c.Exec("sleep 1002 &")
	tagged, job := rowOf(s, "sleep 1001"), rowOf(s, "sleep 1002")
	if tagged.PID != pid || tagged.Tag != "mine" || tagged.User != "sandbox" || tagged.MemoryBytes <= 0 {
		t.Errorf("got %+v", tagged)
	}
	if age := time.Now().UnixMilli() - tagged.CreatedAtMS; age < -1000 || age > runnertest.Patience.Milliseconds() {
		t.Errorf("the process is %d ms old", age)
	}
	var shell tableRow
	for _, row := range tableOf(s) {
		if row.PID == s.Cmd.Process.Pid {
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
	s := runnertest.Start(t, nil)
	argv := []string{"sh", "-c", "read line; exit", "\x1b]0;name\x07", strings.Repeat("x", 3*commandBytes)}
	pid := s.Dial().Start(wire.Fields{"argv": argv, "stdin": true})
	if row := rowOf(s, strings.Join(argv, " ")[:commandBytes]); row.PID != pid {
		t.Errorf("process %d instead of %d", row.PID, pid)
	}
}

func TestAnyProcessOfTheSandboxCanBeSignalled(t *testing.T) {
	s := runnertest.Start(t, nil)
	c := s.Dial()
	c.Exec("sleep 1003 & sleep 1004 &")
	first, second := rowOf(s, "sleep 1003"), rowOf(s, "sleep 1004")
	if f, _ := c.Call("process.signal", wire.Fields{"pid": first.PID, "signal": "KILL"}); f["ok"] != true {
		t.Fatalf("got %v", f)
	}
	if out := c.Exec("wait %1; echo $?; kill -0 %2 && echo alive").Out; !strings.HasSuffix(out, "137\r\nalive\r\n") {
		t.Errorf("got %q", out)
	}
	for _, pid := range []int{first.PID, 1, s.Cmd.Process.Pid, 1 << 22} {
		if f, _ := c.Call("process.signal", wire.Fields{"pid": pid, "signal": "TERM"}); f["code"] != wire.CodeProcessNotFound {
			t.Errorf("signal %d: %v", pid, f)
		}
	}
	if f, _ := c.Call("process.signal", wire.Fields{"pid": second.PID, "signal": "SEGV"}); f["code"] != wire.CodeInvalidRequest {
		t.Errorf("an unknown signal: %v", f)
	}
}
