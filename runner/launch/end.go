package launch

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// An endJob names everything that a machine may have left. Any part may be gone already: ending twice is the same as once.
type endJob struct {
	ID      string   `json:"id"`
	Runtime []string `json:"runtime"`
	Records string   `json:"records"` // where the runtime keeps what it knows of the machine
	Folder  string   `json:"folder"`
	Socket  string   `json:"socket"`
	// SocketFolder is where the socket may have been made.
	SocketFolder string `json:"socket_folder"`
	State        *state `json:"state"`
	// HideMounts as in a runtimePlan.
	HideMounts []string `json:"hide_mounts"`
	Groups     []group  `json:"groups"`
	Image      string   `json:"image"`
	// Keep is where the files of a disk in memory go, or "".
	Keep  string   `json:"keep"`
	Shown []onDisk `json:"shown"`
}

// How long the kernel gets to tear a machine down. Reached only when something hangs, such as a dead disk.
const endDeadline = 30 * time.Second

// A sweepJob names groups that belong to no known machine.
type sweepJob struct {
	Groups []group `json:"groups"`
}

// How long a daemon that is about to listen waits for them. What is left then, the next sweep finds.
const sweepDeadline = 5 * time.Second

func sweep(j *sweepJob) {
	deadline := time.Now().Add(sweepDeadline)
	for _, g := range j.Groups {
		for _, pid := range members(g.Dir) {
			killMember(g, pid)
		}
	}
	for _, g := range j.Groups {
		_ = removeGroups([]group{g}, deadline)
	}
}

func end(j *endJob, r *result) error {
	deadline := time.Now().Add(endDeadline)
	if err := awaitStart(j.Folder, time.Now().Add(startPatience)); err != nil {
		return err
	}
	if j.State != nil {
		if err := killMachine(j, deadline); err != nil {
			return err
		}
	}
	if len(j.Groups) == 0 {
		if err := endStragglers(j.Folder, j.Socket, deadline); err != nil {
			return err
		}
	}
	r.mark("kill")
	if _, err := os.Stat(j.Records); err == nil {
		if err := forget(j); err != nil {
			return err
		}
	}
	r.mark("runtime delete")
	if err := removeGroups(j.Groups, deadline); err != nil {
		return err
	}
	r.mark("cgroups")
	for _, path := range []string{j.Socket, filepath.Join(j.Folder, "state.json"), filepath.Join(j.Folder, "pid")} {
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("remove %s: %w", path, err)
		}
	}
	if err := os.RemoveAll(j.SocketFolder); err != nil {
		return fmt.Errorf("remove the socket's folder: %w", err)
	}
	if j.Image != "" {
		if err := awaitReleased(j.Image, deadline); err != nil {
			return err
		}
	}
	r.mark("disk release")
	return nil
}

// forget has the runtime forget the machine. A runtime that is not installed any more can do nothing else that matters here.
func forget(j *endJob) error {
	if len(j.Runtime) > 0 {
		if _, err := os.Stat(j.Runtime[0]); !errors.Is(err, os.ErrNotExist) {
			if err := hideMounts(j.HideMounts); err != nil {
				return err
			}
			return deleteMachine(j.Runtime, j.ID)
		}
	}
	if err := os.RemoveAll(j.Records); err != nil {
		return fmt.Errorf("remove the runtime's records: %w", err)
	}
	return nil
}

// killMachine ends the machine and then saves what its keeper holds.
func killMachine(j *endJob, deadline time.Time) error {
	if err := killFirst(j, deadline); err != nil || j.State.Keeper == nil {
		return err
	}
	keeper, err := j.State.Keeper.open()
	if err != nil || keeper == nil {
		return err
	}
	defer keeper.close()
	if j.Keep != "" {
		held, err := hold(j.State.Keeper, j.Shown)
		if err != nil {
			return err
		}
		if err := pack(held, j.Keep); err != nil {
			return err
		}
	}
	if err := keeper.kill(); err != nil {
		return fmt.Errorf("end the disk's keeper: %w", err)
	}
	return keeper.wait(deadline)
}

func killFirst(j *endJob, deadline time.Time) error {
	first, err := j.State.open()
	if err != nil || first == nil {
		return err
	}
	defer first.close()
	if err := first.kill(); err != nil {
		return fmt.Errorf("kill the sandbox: %w", err)
	}
	for _, g := range j.Groups {
		if g.Thaw != nil {
			err := os.WriteFile(filepath.Join(g.Dir, g.Thaw.File), []byte(g.Thaw.Value), 0)
			if err != nil && !errors.Is(err, os.ErrNotExist) {
				return fmt.Errorf("thaw: %w", err)
			}
		}
	}
	if err := first.wait(deadline); err != nil {
		return fmt.Errorf("kill the sandbox: %w", err)
	}
	return nil
}
