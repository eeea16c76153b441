package main

import (
	"errors"
	"io"
	"os"
	"sort"
	"strconv"
	"strings"
	"time"
)

const (
	tableRows       = 10_000 // processes listed; more are left out
	commandBytes    = 4096   // of a command line
	commandPatience = 200 * time.Millisecond
	tickMS          = 1000 / ticksPerSecond
)

// A tableRow is one process of the sandbox, whoever started it.
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

// streamTable lists every process of the sandbox but the runner's own, in the order they were started.
func streamTable(run *runner, s *stream, _ *request) error {
	if err := s.reply(fields{}); err != nil {
		return err
	}
	out := pages{out: s, limit: tableRows}
	all := everyone()
	sort.Slice(all, func(i, j int) bool {
		if all[i].started != all[j].started {
			return all[i].started < all[j].started
		}
		return all[i].pid < all[j].pid
	})
	now, ticksNow := time.Now().UnixMilli(), bootTicks()
	tags, shells := run.known()
	for _, p := range all {
		row := tableRow{
			PID: p.pid, Parent: p.parent, User: run.userOf(p.pid), State: string(rune(p.state)), CPUMS: p.ticks * tickMS,
			MemoryBytes: p.pages * int64(os.Getpagesize()), CreatedAtMS: now - (ticksNow-p.started)*tickMS,
			Command: commandOf(p.pid), Tag: tags[p.pid], Shell: shells[p.pid],
		}
		if err := out.add(row); errors.Is(err, errEnough) {
			break
		} else if err != nil {
			return err
		}
	}
	return out.finish()
}

// known are the tags of running processes that have one, and the names of the shells.
func (run *runner) known() (tags, shells map[int]string) {
	tags, shells = map[int]string{}, map[int]string{}
	for _, p := range run.processes.all() {
		if p.spec.Tag != nil && !p.hasEnded() {
			tags[p.pid] = *p.spec.Tag
		}
	}
	for _, sh := range run.listShells() {
		shells[sh.pid] = sh.name
	}
	return tags, shells
}

// userOf names the user of a process: sandbox, root, or the number of another.
func (run *runner) userOf(pid int) string {
	status, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return "-"
	}
	_, rest, _ := strings.Cut(string(status), "\nUid:\t")
	uid, _, _ := strings.Cut(rest, "\t")
	switch {
	case run.cfg.User == nil && uid == strconv.Itoa(ownUID), run.cfg.User != nil && uid == strconv.Itoa(int(run.cfg.User.UID)):
		return "sandbox"
	case uid == "0":
		return "root"
	}
	return uid
}

// commandReads bounds the reads of command lines that do not end.
var commandReads = make(chan struct{}, 8)

// commandOf is the command line of a process, or its name in brackets.
//
// SECURITY: a process decides what its command line says, and since the kernel reads it out of the memory of the process, it can also
// decide that a read never ends. Such a read is left behind, and no more than a few are.
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
	timer := time.NewTimer(commandPatience)
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
	return text(strings.ReplaceAll(strings.TrimRight(string(data), "\x00"), "\x00", " "))
}

// nameOf is kept by the kernel, which cuts it at 15 bytes.
func nameOf(dir string) string {
	name, err := os.ReadFile(dir + "/comm")
	if err != nil {
		return "-"
	}
	return "[" + text(strings.TrimSuffix(string(name), "\n")) + "]"
}
