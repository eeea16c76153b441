package launch

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// A startJob is everything about one start, decided by the daemon.
type startJob struct {
	ID string `json:"id"`
	// Runtime is how the runtime is started, unless it was while preparing.
	Runtime *runtimePlan `json:"runtime"`
	Folder  string       `json:"folder"` // the session's, host-only
	// Record is written to the folder before anything else: after a crash it tells what may have been left.
	Record json.RawMessage `json:"record"`
	Socket string          `json:"socket"`
	// SocketFolder is where a runner that inherits no socket makes its own, or nil.
	SocketFolder *socketFolder   `json:"socket_folder"`
	Bundle       json.RawMessage `json:"bundle"` // the runtime's config.json; its root is Rootfs
	Config       json.RawMessage `json:"config"` // the runner's
	Groups       []group         `json:"groups"`
	Disk         disk            `json:"disk"`
	// Rootfs is where the root filesystem is put together: a folder that anybody may reach, because the runtime looks it up
	// with the rights of an id that owns nothing on the host.
	Rootfs string  `json:"rootfs"`
	Layers []layer `json:"layers"`
	// Folders are the host's own, those above before those below.
	Folders []folder  `json:"folders"`
	IDs     []idRange `json:"ids"`
	// Users is an empty file at which the runtime finds the machine's user namespace.
	Users   string   `json:"users"`
	Rlimits []rlimit `json:"rlimits"`
	// BootID is a file of the disk that the machine has in place of the host's boot id; "" for a machine with a kernel of its own.
	BootID string `json:"boot_id"`
	// WantFilter asks what the runtime compiled the seccomp profile to.
	WantFilter bool `json:"want_filter"`
}

// A state is what is needed to find and end the machine later, whatever became of the daemon.
type state struct {
	Pid       int    `json:"pid"`
	StartTime uint64 `json:"start_time"` // clock ticks after boot: with the pid, names one process for as long as the host is up
	BootID    string `json:"boot_id"`
	// Keeper holds a disk in memory, so that its files outlive the machine.
	Keeper *state `json:"keeper,omitempty"`
}

// start brings one machine up. It undoes nothing when it fails: mounts and loop devices go with this process, and the
// daemon follows a failed start, or one that was killed, with an end job, which removes the rest.
func start(j *startJob, prepared *prepareJob, r *result) error {
	if err := j.makeFolder(); err != nil {
		return err
	}
	held, err := holdFolders(j.Folders)
	if err != nil {
		return err
	}
	r.mark("folder")
	mounted, err := j.Disk.mount(j.Folder, prepared.Disk)
	if err != nil {
		return err
	}
	r.mark("disk")
	users, err := prepared.userNamespace(j.IDs)
	if err != nil {
		return err
	}
	defer users.Close()
	if err := syscall.Mount(fdPath(int(users.Fd())), j.Users, "", syscall.MS_BIND, ""); err != nil {
		return fmt.Errorf("show the user namespace to the runtime: %w", err)
	}
	r.mark("user namespace")
	if err := j.SocketFolder.make(); err != nil {
		return err
	}
	if err := buildRootfs(j, mounted, users, held); err != nil {
		return err
	}
	r.mark("rootfs")
	run := prepared.runtime
	if j.Runtime != nil {
		if run, err = j.Runtime.start(); err != nil {
			return err
		}
	}
	if run == nil {
		return fmt.Errorf("no runtime was prepared")
	}
	if run.listener != nil {
		if err := listenAt(run.listener, j.Socket); err != nil {
			return err
		}
	}
	if err := run.tell(j.Config); err != nil {
		return err
	}
	r.mark("bundle")
	pid, err := run.run(j.Bundle, j.Rlimits, filepath.Join(j.Folder, "logs", "boot.log"))
	if err != nil {
		return err
	}
	r.mark("runtime")
	if run.plan.Verify {
		if err := run.verify(pid, users, j.IDs); err != nil {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may be anywhere
			return fmt.Errorf("%s: %w", filepath.Base(run.plan.Argv[0]), err)
		}
	}
	if err := j.SocketFolder.take(j.Socket, pid); err != nil {
		return err
	}
	if j.BootID != "" {
		if err := showBootID(pid, filepath.Join(mounted, j.BootID)); err != nil {
			return err
		}
	}
	if j.WantFilter {
		r.Filter = run.filter(pid)
	}
	s, err := describe(pid)
	if err != nil {
		return err
	}
	if err := checkGroups(j.Groups, pid); err != nil {
		return err
	}
	// What runs before the daemon dials is the runner and one shell of the image, in its groups: limits are in time here, and do not slow the start.
	if err := limitGroups(j.Groups); err != nil {
		return err
	}
	keeper, err := startKeeper(j.Folder, mounted, &j.Disk)
	if err != nil {
		return err
	}
	s.Keeper = keeper.state
	if err := writeWhole(filepath.Join(j.Folder, "state.json"), s); err != nil {
		return err
	}
	if err := keeper.release(); err != nil {
		return err
	}
	r.mark("limits")
	r.State = s
	return nil
}

func (j *startJob) makeFolder() error {
	for _, name := range []string{"", "disk", "logs"} {
		if err := os.Mkdir(filepath.Join(j.Folder, name), 0o700); err != nil && !os.IsExist(err) {
			return fmt.Errorf("make session folder: %w", err)
		}
	}
	if err := lockStart(j.Folder); err != nil {
		return err
	}
	return writeWhole(filepath.Join(j.Folder, "config.json"), j.Record)
}

// writeWhole writes a file that is there completely or not at all.
func writeWhole(path string, value any) error {
	data, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("encode %s: %w", filepath.Base(path), err)
	}
	if err := os.WriteFile(path+".new", data, 0o600); err != nil {
		return fmt.Errorf("write %s: %w", filepath.Base(path), err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("write %s: %w", filepath.Base(path), err)
	}
	return nil
}
