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
// as only a launcher, its runtime and a sandbox not yet shut in do, and the keeper of its disk.
func endStragglers(folder string, deadline time.Time) error {
	mark := " " + filepath.Join(folder, "disk") + " "
	keeper := strings.Join(keeperArgs(folder), "\x00") + "\x00"
	isLeft := func(pid int) bool {
		if argv, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); err == nil && string(argv) == keeper {
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
