package oci

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"sandglass/runner/internal/launch/disk"
	"sandglass/runner/internal/launch/pidfd"
)

// endStragglers kills the processes that are left of a session on a host without cgroups:
//   - those in whose mount namespace the session's disk is mounted in its folder: a launcher, its runtime, and a sandbox that has not
//     changed its root yet;
//   - those that have the runner's socket open: a sandbox whose state was not written;
//   - the holder of its disk.
//
// A process may fork while the others are listed, so it looks again until none is found.
func endStragglers(folder, socket string, deadline time.Time) error {
	sockets, err := socketsAt(socket)
	if err != nil {
		return err
	}
	mark := " " + filepath.Join(folder, "disk") + " "
	holder := strings.Join(disk.HolderArgs(folder), "\x00") + "\x00"
	isStraggler := func(pid int) bool {
		if argv, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); err == nil && string(argv) == holder {
			return true
		}
		if holdsAny(pid, sockets) {
			return true
		}
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", pid))
		return err == nil && strings.Contains(string(data), mark)
	}
	for {
		killed, err := killAll(isStraggler, deadline)
		if err != nil || killed == 0 {
			return err
		}
	}
}

// killAll kills the processes that match, waits for each of them, and returns how many there were.
func killAll(matches func(pid int) bool, deadline time.Time) (int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return 0, fmt.Errorf("list processes: %w", err)
	}
	killed := 0
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() || !matches(pid) {
			continue
		}
		p, err := pidfd.Open(pid)
		if err != nil {
			continue // gone meanwhile
		}
		if matches(pid) {
			killed++
			err = p.Kill()
			if err == nil {
				err = p.Wait(deadline)
			}
		}
		p.Close()
		if err != nil {
			return killed, fmt.Errorf("end leftover process %d: %w", pid, err)
		}
	}
	return killed, nil
}

// socketsAt returns the link targets in /proc/<pid>/fd of every socket that is bound to this path.
func socketsAt(path string) ([]string, error) {
	data, err := os.ReadFile("/proc/net/unix")
	if err != nil {
		return nil, fmt.Errorf("list sockets: %w", err)
	}
	var found []string
	for _, line := range strings.Split(string(data), "\n") {
		if fields := strings.Fields(line); len(fields) == 8 && fields[7] == path {
			found = append(found, "socket:["+fields[6]+"]")
		}
	}
	return found, nil
}

func holdsAny(pid int, links []string) bool {
	if len(links) == 0 {
		return false
	}
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return false // gone, or not readable
	}
	for _, e := range entries {
		link, err := os.Readlink(filepath.Join(dir, e.Name()))
		for _, wanted := range links {
			if err == nil && link == wanted {
				return true
			}
		}
	}
	return false
}
