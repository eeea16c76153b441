package microvm

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"syscall"
	"time"

	"sandglass/runner/internal/strictjson"
)

// A snapshotJob has QEMU write the memory and the device state of its machine to a file.
type snapshotJob struct {
	Monitor  string `json:"monitor"` // QEMU's monitor socket
	File     string `json:"file"`
	Deadline int    `json:"deadline_ms"`
}

const (
	migrationPoll  = 10 * time.Millisecond
	noBandwidthCap = 1 << 40
)

// Snapshot does one job from stdin. QEMU may open no path, so it gets the file as a descriptor over its monitor. Node cannot send
// descriptors.
func Snapshot() error {
	j := &snapshotJob{}
	if err := strictjson.ReadLine(strictjson.Input(), j); err != nil {
		return err
	}
	file, err := os.OpenFile(j.File, os.O_CREATE|os.O_TRUNC|os.O_WRONLY|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return fmt.Errorf("open snapshot: %w", err)
	}
	defer file.Close()
	m, err := openMonitor(j.Monitor, time.Duration(j.Deadline)*time.Millisecond)
	if err != nil {
		return err
	}
	defer m.conn.Close()
	rights := syscall.UnixRights(int(file.Fd()))
	if _, err := m.command("getfd", map[string]any{"fdname": "snapshot"}, rights); err != nil {
		return err
	}
	if _, err := m.command("migrate-set-parameters", map[string]any{"max-bandwidth": noBandwidthCap}, nil); err != nil {
		return err
	}
	if _, err := m.command("migrate", map[string]any{"uri": "fd:snapshot"}, nil); err != nil {
		return err
	}
	for {
		answer, err := m.command("query-migrate", nil, nil)
		if err != nil {
			return err
		}
		switch status := answer["status"]; status {
		case "completed":
			return nil
		case "failed", "cancelled":
			return fmt.Errorf("the migration to the snapshot file %v: %v", status, answer["error-desc"])
		}
		time.Sleep(migrationPoll)
	}
}

// A monitor is a connection to QEMU's monitor (QMP).
type monitor struct {
	conn  *net.UnixConn
	lines *bufio.Reader
}

func openMonitor(path string, timeout time.Duration) (*monitor, error) {
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("open monitor: %w", err)
	}
	m := &monitor{conn, bufio.NewReaderSize(conn, 64<<10)}
	conn.SetDeadline(time.Now().Add(timeout))
	if _, err = m.lines.ReadBytes('\n'); err == nil {
		_, err = m.command("qmp_capabilities", nil, nil)
	}
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("open monitor: %w", err)
	}
	return m, nil
}

// command sends one command and returns its result. Events that come before it are skipped.
func (m *monitor) command(name string, arguments map[string]any, rights []byte) (map[string]any, error) {
	if arguments == nil {
		arguments = map[string]any{}
	}
	line, err := json.Marshal(map[string]any{"execute": name, "arguments": arguments})
	if err != nil {
		return nil, err
	}
	if _, _, err := m.conn.WriteMsgUnix(append(line, '\n'), rights, nil); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	for {
		line, err := m.lines.ReadBytes('\n')
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		answer := struct {
			Return map[string]any `json:"return"`
			Error  *struct {
				Desc string `json:"desc"`
			} `json:"error"`
			Event string `json:"event"`
		}{}
		if err := json.Unmarshal(line, &answer); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if answer.Error != nil {
			return nil, fmt.Errorf("%s: %s", name, answer.Error.Desc)
		}
		if answer.Event == "" {
			return answer.Return, nil
		}
	}
}
