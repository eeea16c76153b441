package oci

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"sandglass/runner/internal/launch/cgroup"
	"sandglass/runner/internal/launch/disk"
	"sandglass/runner/internal/launch/mount"
)

// An endJob names everything that may be left of a machine. Any part may be gone already: ending twice is the same as once.
type endJob struct {
	ID      string   `json:"id"`
	Runtime []string `json:"runtime"`
	Records string   `json:"records"` // folder of the runtime's records of the machine
	Folder  string   `json:"folder"`
	Socket  string   `json:"socket"`
	// EgressSocket is the path of a socket that the machine may have had.
	EgressSocket string `json:"egress_socket"`
	// SocketFolder is the folder in which the runner may have made its sockets.
	SocketFolder string `json:"socket_folder"`
	State        *state `json:"state"`
	// HideMounts as in a runtimePlan.
	HideMounts []string       `json:"hide_mounts"`
	Groups     []cgroup.Group `json:"groups"`
	Image      string         `json:"image"`
	// SaveTo is the tar that the files of a tmpfs are saved to, or "".
	SaveTo string      `json:"save_to"`
	Binds  []disk.Bind `json:"binds"`
}

// How long the kernel may take to end a machine. Reached only when something hangs, such as a broken disk.
const endDeadline = 30 * time.Second

// A sweepJob names cgroups that belong to no known machine.
type sweepJob struct {
	Groups []cgroup.Group `json:"groups"`
}

// How long a starting daemon waits for a sweep. The next sweep finds what is left then.
const sweepDeadline = 5 * time.Second

func sweep(j *sweepJob) {
	deadline := time.Now().Add(sweepDeadline)
	for i := range j.Groups {
		j.Groups[i].Kill()
	}
	for _, g := range j.Groups {
		_ = cgroup.Remove([]cgroup.Group{g}, deadline)
	}
}

func end(j *endJob, r *result) error {
	deadline := time.Now().Add(endDeadline)
	if err := awaitStart(j.Folder, time.Now().Add(startDeadline)); err != nil {
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
		if err := deleteRecords(j); err != nil {
			return err
		}
	}
	r.mark("runtime delete")
	if err := cgroup.Remove(j.Groups, deadline); err != nil {
		return err
	}
	r.mark("cgroups")
	for _, path := range []string{j.Socket, j.EgressSocket, filepath.Join(j.Folder, "state.json"), filepath.Join(j.Folder, "pid")} {
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("remove %s: %w", path, err)
		}
	}
	if err := os.RemoveAll(j.SocketFolder); err != nil {
		return fmt.Errorf("remove the socket folder: %w", err)
	}
	if j.Image != "" {
		if err := disk.AwaitReleased(j.Image, deadline); err != nil {
			return err
		}
	}
	r.mark("disk release")
	return nil
}

// deleteRecords has the runtime delete the machine. If the runtime is not installed any more, removing its records is all that is left to
// do.
func deleteRecords(j *endJob) error {
	if len(j.Runtime) > 0 {
		if _, err := os.Stat(j.Runtime[0]); !errors.Is(err, os.ErrNotExist) {
			if err := mount.Cover(j.HideMounts); err != nil {
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

// killMachine ends the machine and then saves the files that its disk holder keeps.
func killMachine(j *endJob, deadline time.Time) error {
	if err := killFirst(j, deadline); err != nil || j.State.Holder == nil {
		return err
	}
	holder, err := j.State.Holder.Open()
	if err != nil || holder == nil {
		return err
	}
	defer holder.Close()
	if j.SaveTo != "" {
		if err := disk.Save(j.State.Holder, j.Binds, j.SaveTo); err != nil {
			return err
		}
	}
	if err := holder.Kill(); err != nil {
		return fmt.Errorf("end the disk holder: %w", err)
	}
	return holder.Wait(deadline)
}

func killFirst(j *endJob, deadline time.Time) error {
	first, err := j.State.Open()
	if err != nil || first == nil {
		return err
	}
	defer first.Close()
	if err := first.Kill(); err != nil {
		return fmt.Errorf("kill the sandbox: %w", err)
	}
	if err := cgroup.Thaw(j.Groups); err != nil {
		return err
	}
	if err := first.Wait(deadline); err != nil {
		return fmt.Errorf("kill the sandbox: %w", err)
	}
	return nil
}
