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
	State   *state   `json:"state"`
	// HideMounts as in a startJob.
	HideMounts []string `json:"hide_mounts"`
	Groups     []group  `json:"groups"`
	Image      string   `json:"image"`
	// Keep is where the files of a disk in memory go, or "".
	Keep  string   `json:"keep"`
	Shown []onDisk `json:"shown"`
}

// How long the kernel gets to tear a machine down. Reached only when something hangs, such as a dead disk.
const endDeadline = 30 * time.Second

func end(j *endJob, r *result) error {
	deadline := time.Now().Add(endDeadline)
	if err := hideMounts(j.HideMounts); err != nil {
		return err
	}
	if j.State != nil {
		if err := killMachine(j, deadline); err != nil {
			return err
		}
	}
	r.mark("kill")
	if _, err := os.Stat(j.Records); err == nil {
		if err := deleteMachine(j.Runtime, j.ID); err != nil {
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
	if j.Image != "" {
		if err := awaitReleased(j.Image, deadline); err != nil {
			return err
		}
	}
	r.mark("disk release")
	return nil
}

func killMachine(j *endJob, deadline time.Time) error {
	first, err := j.State.open()
	if err != nil || first == nil {
		return err
	}
	defer first.close()
	var held []kept
	if j.Keep != "" {
		if held, err = hold(j.State.Pid, j.Shown); err != nil {
			return err
		}
	}
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
	if held != nil {
		return pack(held, j.Keep)
	}
	return nil
}
