package microvm

import (
	"encoding/json"
	"fmt"
	"net"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"sandglass/runner/internal/testns"
)

func fakeMonitor(t *testing.T, path string, statuses ...string) <-chan []string {
	t.Helper()
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	commands := make(chan []string, 1)
	go func() {
		defer listener.Close()
		conn, err := listener.AcceptUnix()
		if err != nil {
			return
		}
		defer conn.Close()
		var seen []string
		defer func() { commands <- seen }()
		fmt.Fprintln(conn, `{"QMP":{}}`)
		buffer, oob := make([]byte, 4096), make([]byte, 64)
		for {
			n, oobn, _, _, err := conn.ReadMsgUnix(buffer, oob)
			if err != nil || n == 0 {
				return
			}
			command := struct {
				Execute string `json:"execute"`
			}{}
			if json.Unmarshal(buffer[:n], &command) != nil {
				return
			}
			seen = append(seen, command.Execute)
			if messages, err := syscall.ParseSocketControlMessage(oob[:oobn]); err == nil && len(messages) == 1 {
				fds, _ := syscall.ParseUnixRights(&messages[0])
				syscall.Write(fds[0], []byte("memory"))
				syscall.Close(fds[0])
			}
			fmt.Fprintln(conn, `{"event":"STOP"}`)
			switch {
			case command.Execute == "query-migrate" && len(statuses) > 0:
				fmt.Fprintf(conn, `{"return":{"status":%q,"error-desc":"why"}}`+"\n", statuses[0])
				statuses = statuses[1:]
			case command.Execute == "migrate" && len(statuses) == 0:
				fmt.Fprintln(conn, `{"error":{"desc":"cannot migrate"}}`)
			default:
				fmt.Fprintln(conn, `{"return":{}}`)
			}
		}
	}()
	return commands
}

func takeSnapshot(t *testing.T, dir string) (string, error) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", "snapshot")
	cmd.Stdin = strings.NewReader(fmt.Sprintf(`{"monitor":%q,"file":%q,"deadline_ms":10000}`+"\n", dir+"/m", dir+"/snapshot"))
	output, err := cmd.CombinedOutput()
	return string(output), err
}

func TestASnapshotIsWrittenThroughADescriptor(t *testing.T) {
	dir := t.TempDir()
	commands := fakeMonitor(t, dir+"/m", "active", "completed")
	if output, err := takeSnapshot(t, dir); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	if got := testns.Content(t, dir+"/snapshot"); got != "memory" {
		t.Errorf("the file holds %q", got)
	}
	want := "qmp_capabilities getfd migrate-set-parameters migrate query-migrate query-migrate"
	if got := strings.Join(<-commands, " "); got != want {
		t.Errorf("the commands are %q, want %q", got, want)
	}
}

func TestASnapshotThatFailsSaysWhy(t *testing.T) {
	for want, statuses := range map[string][]string{"failed: why": {"active", "failed"}, "cannot migrate": nil} {
		dir := t.TempDir()
		fakeMonitor(t, dir+"/m", statuses...)
		if output, err := takeSnapshot(t, dir); err == nil || !strings.Contains(output, want) {
			t.Errorf("%s: %v: %s", want, err, output)
		}
	}
	if output, err := takeSnapshot(t, t.TempDir()); err == nil || !strings.Contains(output, "open monitor") {
		t.Errorf("no monitor: %v: %s", err, output)
	}
}

func TestTheTimeStampCounterIsMeasured(t *testing.T) {
	first, second := TSCKhz(), TSCKhz()
	if timestamp() == 0 {
		if first != 0 {
			t.Errorf("without a counter: %d", first)
		}
		return
	}
	if first < 100_000 || float64(first)/float64(second) > 1.05 || float64(second)/float64(first) > 1.05 {
		t.Errorf("%d kHz, then %d kHz", first, second)
	}
}
