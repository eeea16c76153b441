package oci

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"sandglass/runner/internal/launch/cgroup"
	"sandglass/runner/internal/rlimit"
)

// A resizeJob changes the limits of a running machine.
type resizeJob struct {
	Groups []cgroup.Group `json:"groups"`
	// Processes is how many processes one user of the sandbox may have; 0 keeps the current limit.
	Processes uint64 `json:"processes"`
}

// How often the members of a machine are listed. A machine that forks all the time has new ones each time.
const resizeRounds = 50

func resize(j *resizeJob) error {
	// The limits of memory and of memory plus swap bound each other, so their order depends on the direction of the change. The first round
	// ignores errors; the second round can set what the first could not.
	for _, g := range j.Groups {
		for _, s := range g.Settings {
			_ = os.WriteFile(filepath.Join(g.Dir, s.File), []byte(s.Value), 0)
		}
	}
	if err := cgroup.Limit(j.Groups); err != nil {
		return err
	}
	if j.Processes == 0 || len(j.Groups) == 0 {
		return nil
	}
	return limitMembers(j.Groups[0].Dir, rlimit.Limit{Resource: rlimit.Nproc, Limit: j.Processes})
}

// limitMembers sets a limit of every process in the group. A new process inherits the limits of its parent, so all have the limit once a
// listing shows only processes that were seen before.
func limitMembers(dir string, l rlimit.Limit) error {
	seen := map[int]bool{}
	for round := 0; round < resizeRounds; round++ {
		isNew := false
		for _, pid := range cgroup.Members(dir) {
			if seen[pid] {
				continue
			}
			seen[pid], isNew = true, true
			if err := rlimit.SetProcess(pid, l); err != nil && !errors.Is(err, syscall.ESRCH) {
				return err
			}
		}
		if !isNew {
			return nil
		}
	}
	return fmt.Errorf("processes start faster than their limits can be set")
}
