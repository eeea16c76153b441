package launch

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// A resizeJob gives a machine that runs other limits.
type resizeJob struct {
	Groups []group `json:"groups"`
	// Processes is how many one user of the sandbox may have; 0 leaves that as it is.
	Processes uint64 `json:"processes"`
}

const (
	// RlimitNproc is the resource of setrlimit that package syscall has no name for.
	RlimitNproc = 6
	// How often the members of a machine are listed. One that forks all the time may always have another.
	resizeRounds = 50
)

func resize(j *resizeJob) error {
	// Memory and its sum with swap bound each other: which of them has to be first depends on the direction. What a first round could not
	// set, the second can, and that one is strict.
	for _, g := range j.Groups {
		for _, s := range g.Settings {
			_ = os.WriteFile(filepath.Join(g.Dir, s.File), []byte(s.Value), 0)
		}
	}
	if err := limitGroups(j.Groups); err != nil {
		return err
	}
	if j.Processes == 0 || len(j.Groups) == 0 {
		return nil
	}
	return limitMembers(j.Groups[0].Dir, rlimit{RlimitNproc, j.Processes})
}

// limitMembers sets a limit of every process in the group. What a process starts has the limits of that process, so none is left out once all
// that are listed have been seen before.
func limitMembers(dir string, l rlimit) error {
	seen := map[int]bool{}
	for round := 0; round < resizeRounds; round++ {
		isNew := false
		for _, pid := range members(dir) {
			if seen[pid] {
				continue
			}
			seen[pid], isNew = true, true
			if err := limitProcess(pid, l); err != nil && !errors.Is(err, syscall.ESRCH) {
				return err
			}
		}
		if !isNew {
			return nil
		}
	}
	return fmt.Errorf("processes start faster than their limits can be set")
}
