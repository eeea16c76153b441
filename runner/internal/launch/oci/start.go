package oci

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"sandglass/runner/internal/launch/cgroup"
	"sandglass/runner/internal/launch/disk"
	"sandglass/runner/internal/launch/hostdir"
	"sandglass/runner/internal/launch/mount"
	"sandglass/runner/internal/launch/pidfd"
	"sandglass/runner/internal/launch/socket"
	"sandglass/runner/internal/launch/userns"
	"sandglass/runner/internal/rlimit"
)

// A startJob describes one start. The daemon has decided everything in it.
type startJob struct {
	ID string `json:"id"`
	// Runtime says how to start the runtime; nil if the prepare job has started it.
	Runtime *runtimePlan `json:"runtime"`
	Folder  string       `json:"folder"` // of the session, on the host only
	// Record is written to the folder before anything else: after a crash it says what may be left of the machine.
	Record json.RawMessage `json:"record"`
	Socket string          `json:"socket"`
	// EgressSocket is the runner's second socket; nil for a machine without one.
	EgressSocket *socket.Owned `json:"egress_socket"`
	// SocketFolder is where a runner makes its own sockets if it cannot inherit them; nil if it can.
	SocketFolder *socketFolder   `json:"socket_folder"`
	Bundle       json.RawMessage `json:"bundle"` // the runtime's config.json; its root is Rootfs
	Config       json.RawMessage `json:"config"` // the runner's
	Groups       []cgroup.Group  `json:"groups"`
	Disk         disk.Disk       `json:"disk"`
	// Rootfs is the folder on which the root filesystem is mounted. Every user must be able to reach it, because the runtime resolves it as
	// an id that owns nothing on the host.
	Rootfs string  `json:"rootfs"`
	Layers []layer `json:"layers"`
	// Folders of the host that the machine sees, parents before children.
	Folders []hostdir.Folder `json:"folders"`
	IDs     []userns.Range   `json:"ids"`
	// Users is an empty file on which the machine's user namespace is mounted for the runtime.
	Users   string         `json:"users"`
	Rlimits []rlimit.Limit `json:"rlimits"`
	// BootID is a file of the disk that replaces the host's boot id in the machine; "" for a machine with a kernel of its own.
	BootID string `json:"boot_id"`
	// WantFilter asks for the seccomp program that the runtime compiled from the profile.
	WantFilter bool `json:"want_filter"`
}

// A state identifies the machine's first process, so that any later daemon can find and end the machine. It is state.json of the session's
// folder.
type state struct {
	pidfd.Identity
	// Holder is the process that keeps a tmpfs alive; nil for a disk image.
	Holder *pidfd.Identity `json:"holder,omitempty"`
}

// start starts one machine. It undoes nothing when it fails: mounts and loop devices end with this process, and the daemon sends an end
// job after a start that failed or was killed, which removes the rest.
func start(j *startJob, prepared *prepareJob, r *result) error {
	if err := j.makeFolder(); err != nil {
		return err
	}
	folders, err := hostdir.Open(j.Folders)
	if err != nil {
		return err
	}
	r.mark("folder")
	mounted, err := j.Disk.Mount(j.Folder, prepared.Disk)
	if err != nil {
		return err
	}
	r.mark("disk")
	users, err := prepared.userNamespace(j.IDs)
	if err != nil {
		return err
	}
	defer users.Close()
	if err := syscall.Mount(mount.FDPath(int(users.Fd())), j.Users, "", syscall.MS_BIND, ""); err != nil {
		return fmt.Errorf("mount the user namespace for the runtime: %w", err)
	}
	r.mark("user namespace")
	if err := j.SocketFolder.make(); err != nil {
		return err
	}
	if err := buildRootfs(j, mounted, users, folders); err != nil {
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
	if err := run.listen(j.Socket, j.EgressSocket); err != nil {
		return err
	}
	if err := run.configureRunner(j.Config); err != nil {
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
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may run without isolation
			return fmt.Errorf("%s: %w", filepath.Base(run.plan.Argv[0]), err)
		}
	}
	if err := j.SocketFolder.take(j.Socket, j.EgressSocket, pid); err != nil {
		return err
	}
	if j.BootID != "" {
		if err := mountBootID(pid, filepath.Join(mounted, j.BootID)); err != nil {
			return err
		}
	}
	if j.WantFilter {
		r.Filter = run.filter(pid)
	}
	identity, err := pidfd.Identify(pid)
	if err != nil {
		return err
	}
	if err := cgroup.Check(j.Groups, pid); err != nil {
		return err
	}
	// Until the daemon connects, only the runner and one shell of the image run, in their cgroups. Setting limits this late does not slow the start.
	if err := cgroup.Limit(j.Groups); err != nil {
		return err
	}
	holder, err := disk.StartHolder(j.Folder, mounted, &j.Disk)
	if err != nil {
		return err
	}
	s := &state{*identity, holder.Identity}
	if err := replaceFile(filepath.Join(j.Folder, "state.json"), s); err != nil {
		return err
	}
	if err := holder.Release(); err != nil {
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
	return replaceFile(filepath.Join(j.Folder, "config.json"), j.Record)
}

// replaceFile writes a JSON file under another name and renames it, so that readers see all of it or nothing.
func replaceFile(path string, value any) error {
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
