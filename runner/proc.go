package main

import (
	"os"
	"strconv"
	"strings"
)

// A procStat is what /proc/<pid>/stat says about a process.
type procStat struct {
	pid, parent, group, session int
	state                       byte
	started                     int64 // clock ticks since boot
	ticks                       int64 // of processor time
	pages                       int64 // in memory
}

// readStat reads one process; false when it is gone.
func readStat(pid int) (procStat, bool) {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return procStat{}, false
	}
	// The name stands in parentheses and may contain anything, so the fields are counted from the last one.
	line := string(data)
	rest := strings.Fields(line[strings.LastIndexByte(line, ')')+1:])
	if len(rest) < 22 {
		return procStat{}, false
	}
	number := func(i int) int {
		n, err := strconv.Atoi(rest[i])
		if err != nil {
			return 0
		}
		return n
	}
	return procStat{
		pid: pid, state: rest[0][0], parent: number(1), group: number(2), session: number(3), started: int64(number(19)),
		ticks: int64(number(11)) + int64(number(12)), pages: int64(number(21)),
	}, true
}

// allProcesses reads every process that can be seen.
func allProcesses() []procStat {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil
	}
	var list []procStat
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if stat, ok := readStat(pid); ok {
			list = append(list, stat)
		}
	}
	return list
}

// sessionProcesses are the processes of a session, zombies left out.
func sessionProcesses(session int) []procStat {
	var list []procStat
	for _, p := range allProcesses() {
		if p.session == session && p.state != 'Z' {
			list = append(list, p)
		}
	}
	return list
}
