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
	// Runtime is an argv: the program and its options, up to the sub-command.
	Runtime []string `json:"runtime"`
	Folder  string   `json:"folder"` // the session's, host-only
	// Record is written to the folder before anything else: after a crash it tells what may have been left.
	Record json.RawMessage `json:"record"`
	Socket string          `json:"socket"`
	// HideMounts get an empty filesystem mounted over them, in the launcher's namespace alone.
	HideMounts []string        `json:"hide_mounts"`
	Bundle     json.RawMessage `json:"bundle"` // the runtime's config.json; its root is Rootfs
	Config     json.RawMessage `json:"config"` // the runner's
	Groups     []group         `json:"groups"`
	Disk       disk            `json:"disk"`
	// Rootfs is where the root filesystem is put together: a folder that anybody may reach, because the runtime looks it up
	// with the rights of an id that owns nothing on the host.
	Rootfs string    `json:"rootfs"`
	Layers []layer   `json:"layers"`
	IDs    []idRange `json:"ids"`
	// Users is an empty file at which the runtime finds the machine's user namespace.
	Users   string   `json:"users"`
	Rlimits []rlimit `json:"rlimits"`
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
	if err := hideMounts(j.HideMounts); err != nil {
		return err
	}
	if err := j.makeFolder(); err != nil {
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
	if err := buildRootfs(j, mounted, users); err != nil {
		return err
	}
	r.mark("rootfs")
	listener, err := listen(j.Socket)
	if err != nil {
		return err
	}
	defer listener.Close()
	config, err := prefilledPipe(j.Config)
	if err != nil {
		return err
	}
	defer config.Close()
	bundle := filepath.Join(j.Folder, "bundle")
	if err := os.WriteFile(filepath.Join(bundle, "config.json"), j.Bundle, 0o600); err != nil {
		return fmt.Errorf("write bundle: %w", err)
	}
	r.mark("bundle")
	if err := takeOn(j.Rlimits); err != nil {
		return err
	}
	pid, err := runRuntime(j, bundle, []*os.File{listener, config})
	if err != nil {
		return err
	}
	r.mark("runtime")
	s, err := describe(pid)
	if err != nil {
		return err
	}
	if err := checkGroups(j.Groups, pid); err != nil {
		return err
	}
	// Nothing of the user's runs before the daemon dials, so limits are in time here, and do not slow the start.
	if err := limitGroups(j.Groups); err != nil {
		return err
	}
	keeper, err := startKeeper(mounted, &j.Disk)
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

// listen makes the runner's socket. Its folder is the daemon's alone; the mode is a second lock on the same door.
func listen(path string) (*os.File, error) {
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		return nil, fmt.Errorf("remove old socket: %w", err)
	}
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("make socket: %w", err)
	}
	file := os.NewFile(uintptr(fd), "listener")
	mask := syscall.Umask(0o177)
	err = syscall.Bind(fd, &syscall.SockaddrUnix{Name: path})
	syscall.Umask(mask)
	if err == nil {
		err = syscall.Listen(fd, 512)
	}
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	return file, nil
}

// prefilledPipe hands data over to be read once: it is never in a file, in argv or in the environment.
func prefilledPipe(data []byte) (*os.File, error) {
	reader, writer, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make pipe: %w", err)
	}
	defer writer.Close()
	// Nobody reads yet: what does not fit in the pipe would wait for ever.
	if len(data) > 60<<10 {
		reader.Close()
		return nil, fmt.Errorf("the runner's configuration is too long: %d bytes", len(data))
	}
	if _, err := writer.Write(data); err != nil {
		reader.Close()
		return nil, fmt.Errorf("fill pipe: %w", err)
	}
	return reader, nil
}

func (j *startJob) makeFolder() error {
	for _, name := range []string{"", "bundle", "disk", "logs"} {
		if err := os.Mkdir(filepath.Join(j.Folder, name), 0o700); err != nil && !os.IsExist(err) {
			return fmt.Errorf("make session folder: %w", err)
		}
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
