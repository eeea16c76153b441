package launch

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// endStragglers kills what a start that was cut short left running, where no cgroup tells: every process that sees the session's
// disk mounted in its folder. Only a launcher, its runtime and a sandbox not yet shut in do.
func endStragglers(folder string, deadline time.Time) error {
	mark := " " + filepath.Join(folder, "disk") + " "
	sees := func(pid int) bool {
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", pid))
		return err == nil && strings.Contains(string(data), mark)
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return fmt.Errorf("list processes: %w", err)
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() || !sees(pid) {
			continue
		}
		p, err := openPidfd(pid)
		if err != nil {
			continue // gone meanwhile
		}
		if sees(pid) {
			err = p.kill()
			if err == nil {
				err = p.wait(deadline)
			}
		}
		p.close()
		if err != nil {
			return fmt.Errorf("end process %d of an unfinished start: %w", pid, err)
		}
	}
	return nil
}
