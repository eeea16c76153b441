package process

import (
	"errors"
	"io"
	"os"
	"sort"
	"strconv"
	"strings"
	"time"

	"sandglass/runner/internal/account"
	"sandglass/runner/internal/procfs"
	"sandglass/runner/internal/wire"
)

const (
	tableRows      = 10_000 // rows listed at most
	commandBytes   = 4096   // of a command line at most
	commandTimeout = 200 * time.Millisecond
	tickMS         = 1000 / procfs.TicksPerSecond
)

// A tableRow is one process of the sandbox, whether or not the API started it.
type tableRow struct {
	PID         int    `json:"pid"`
	Parent      int    `json:"parent_pid"`
	User        string `json:"user"`
	State       string `json:"state"`
	CPUMS       int64  `json:"cpu_ms"`
	MemoryBytes int64  `json:"memory_bytes"`
	CreatedAtMS int64  `json:"created_at_ms"`
	Command     string `json:"command"`
	Tag         string `json:"tag,omitempty"`
	Shell       string `json:"shell,omitempty"`
}

// streamTable lists the processes of the sandbox except the runner, in the order of their start.
func (ps *Table) streamTable(s *wire.Stream, _ *wire.Request) error {
	if err := s.Reply(wire.Fields{}); err != nil {
		return err
	}
	out := wire.Pages{Stream: s, Limit: tableRows}
	all := procfs.SandboxProcesses()
	sort.Slice(all, func(i, j int) bool {
		if all[i].Started != all[j].Started {
			return all[i].Started < all[j].Started
		}
		return all[i].PID < all[j].PID
	})
	now, ticksNow := time.Now().UnixMilli(), procfs.BootTicks()
	tags, shells := ps.tags(), ps.shells()
	for _, p := range all {
		row := tableRow{
			PID: p.PID, Parent: p.Parent, User: ps.userOf(p.PID), State: string(rune(p.State)), CPUMS: p.CPUTicks * tickMS,
			MemoryBytes: p.Pages * int64(os.Getpagesize()), CreatedAtMS: now - (ticksNow-p.Started)*tickMS,
			Command: commandOf(p.PID), Tag: tags[p.PID], Shell: shells[p.PID],
		}
		if err := out.Add(row); errors.Is(err, wire.ErrFull) {
			break
		} else if err != nil {
			return err
		}
	}
	return out.Finish()
}

// tags maps the pids of running processes to their tags.
func (ps *Table) tags() map[int]string {
	tags := map[int]string{}
	for _, p := range ps.all() {
		if p.spec.Tag != nil && !p.hasEnded() {
			tags[p.pid] = *p.spec.Tag
		}
	}
	return tags
}

// userOf is the name of the user of a process: sandbox, root, or the uid of another user.
func (ps *Table) userOf(pid int) string {
	status, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return "-"
	}
	_, rest, _ := strings.Cut(string(status), "\nUid:\t")
	uid, _, _ := strings.Cut(rest, "\t")
	switch {
	case ps.cfg.User == nil && uid == strconv.Itoa(account.OwnUID), ps.cfg.User != nil && uid == strconv.Itoa(int(ps.cfg.User.UID)):
		return "sandbox"
	case uid == "0":
		return "root"
	}
	return uid
}

// commandReads limits the reads of command lines that may never end.
var commandReads = make(chan struct{}, 8)

// commandOf is the command line of a process, or its name in brackets.
//
// SECURITY: a process controls its command line. The kernel reads it from the memory of the process, so a process can
// also make a read block forever. Such a read is abandoned, and their number is limited.
func commandOf(pid int) string {
	dir := "/proc/" + strconv.Itoa(pid)
	select {
	case commandReads <- struct{}{}:
	default:
		return nameOf(dir)
	}
	line := make(chan string, 1)
	go func() {
		defer func() { <-commandReads }()
		line <- readCommand(dir + "/cmdline")
	}()
	timer := time.NewTimer(commandTimeout)
	defer timer.Stop()
	select {
	case command := <-line:
		if command != "" {
			return command
		}
	case <-timer.C:
	}
	return nameOf(dir)
}

func readCommand(path string) string {
	file, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer file.Close()
	data, _ := io.ReadAll(io.LimitReader(file, commandBytes))
	return wire.Text(strings.ReplaceAll(strings.TrimRight(string(data), "\x00"), "\x00", " "))
}

// nameOf is the name that the kernel keeps, at most 15 bytes, in brackets.
func nameOf(dir string) string {
	name, err := os.ReadFile(dir + "/comm")
	if err != nil {
		return "-"
	}
	return "[" + wire.Text(strings.TrimSuffix(string(name), "\n")) + "]"
}
