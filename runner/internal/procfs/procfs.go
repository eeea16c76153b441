// Package procfs reads the process table of the kernel.
package procfs

import (
	"os"
	"strconv"
	"strings"
	"syscall"
	"unsafe"
)

// A Process is the state of a process as /proc/<pid>/stat shows it.
type Process struct {
	PID, Parent, Group, session int
	Name                        string // of the program, as the process may change it; at most 15 bytes
	State                       byte
	Started                     int64 // clock ticks since boot
	CPUTicks                    int64 // processor time used
	Pages                       int64 // resident memory
}

// Read reads one process. It returns false when the process is gone.
func Read(pid int) (Process, bool) {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return Process{}, false
	}
	// The name is in parentheses and may contain anything: parse the fields after the last parenthesis.
	line := string(data)
	from, to := strings.IndexByte(line, '('), strings.LastIndexByte(line, ')')
	rest := strings.Fields(line[to+1:])
	if from < 0 || to < from || len(rest) < 22 {
		return Process{}, false
	}
	number := func(i int) int {
		n, err := strconv.Atoi(rest[i])
		if err != nil {
			return 0
		}
		return n
	}
	return Process{
		PID: pid, Name: line[from+1 : to], State: rest[0][0], Parent: number(1), Group: number(2), session: number(3), Started: int64(number(19)),
		CPUTicks: int64(number(11)) + int64(number(12)), Pages: int64(number(21)),
	}, true
}

// All reads every visible process.
func All() []Process {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil
	}
	var list []Process
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if stat, ok := Read(pid); ok {
			list = append(list, stat)
		}
	}
	return list
}

// InSession returns the processes of a session except zombies.
func InSession(session int) []Process {
	var list []Process
	for _, p := range All() {
		if p.session == session && p.State != 'Z' {
			list = append(list, p)
		}
	}
	return list
}

// SandboxProcesses returns the processes of the sandbox except the runner: all others if the runner is PID 1,
// otherwise its descendants.
func SandboxProcesses() []Process {
	self := os.Getpid()
	all := All()
	ours := map[int]bool{self: true}
	var list []Process
	for grew := true; grew; {
		grew = false
		for _, p := range all {
			if ours[p.PID] || p.State == 'Z' || !(self == 1 || ours[p.Parent]) {
				continue
			}
			ours[p.PID], grew = true, true
			list = append(list, p)
		}
	}
	return list
}

// Kill sends SIGKILL to each process of the list, unless its pid belongs to another process by now.
func Kill(list []Process) {
	for _, p := range list {
		if current, ok := Read(p.PID); ok && current.Started == p.Started {
			syscall.Kill(p.PID, syscall.SIGKILL)
		}
	}
}

const (
	clockBoottime  = 7
	TicksPerSecond = 100 // unit of /proc/<pid>/stat; the same on every architecture that Go supports
)

// BootTicks is the current time in the unit of Process.Started.
func BootTicks() int64 {
	var now syscall.Timespec
	if _, _, errno := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, clockBoottime, uintptr(unsafe.Pointer(&now)), 0); errno != 0 {
		return 0
	}
	return now.Nano() / (1e9 / TicksPerSecond)
}
