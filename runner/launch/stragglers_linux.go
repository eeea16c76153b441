package launch

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// endStragglers kills what is left of a session, where no cgroup tells: every process that sees the session's disk mounted in its folder,
// as only a launcher, its runtime and a sandbox not yet shut in do; whoever has the runner's socket, as a sandbox does of which no state
// was written; and the keeper of its disk.
func endStragglers(folder, socket string, deadline time.Time) error {
	listeners, err := socketsAt(socket)
	if err != nil {
		return err
	}
	mark := " " + filepath.Join(folder, "disk") + " "
	keeper := strings.Join(keeperArgs(folder), "\x00") + "\x00"
	isLeft := func(pid int) bool {
		if argv, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); err == nil && string(argv) == keeper {
			return true
		}
		if holdsAny(pid, listeners) {
			return true
		}
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", pid))
		return err == nil && strings.Contains(string(data), mark)
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return fmt.Errorf("list processes: %w", err)
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() || !isLeft(pid) {
			continue
		}
		p, err := openPidfd(pid)
		if err != nil {
			continue // gone meanwhile
		}
		if isLeft(pid) {
			err = p.kill()
			if err == nil {
				err = p.wait(deadline)
			}
		}
		p.close()
		if err != nil {
			return fmt.Errorf("end process %d that was left: %w", pid, err)
		}
	}
	return nil
}

// socketsAt gives what a descriptor of a socket with this path leads to, for each there is.
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
		return false // gone, or not ours
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
