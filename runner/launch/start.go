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
	Socket  string   `json:"socket"`
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
}

// A state is what is needed to find and end the machine later, whatever became of the daemon.
type state struct {
	Pid       int    `json:"pid"`
	StartTime uint64 `json:"start_time"` // clock ticks after boot: with the pid, names one process for as long as the host is up
	BootID    string `json:"boot_id"`
}

// start brings one machine up. It undoes nothing when it fails: mounts and loop devices go with this process, and the
// daemon follows a failed start, or one that was killed, with an end job, which removes the rest.
func start(j *startJob, r *result) error {
	if err := hideMounts(j.HideMounts); err != nil {
		return err
	}
	if err := enterGroups(j.Groups); err != nil {
		return err
	}
	r.mark("cgroups")
	mounted, err := j.Disk.mount(j.Folder)
	if err != nil {
		return err
	}
	r.mark("disk")
	if err := buildRootfs(j, mounted); err != nil {
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
	if err := writeState(filepath.Join(j.Folder, "state.json"), s); err != nil {
		return err
	}
	r.mark("verify")
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

func writeState(path string, s *state) error {
	data, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("encode state: %w", err)
	}
	temporary := path + ".new"
	if err := os.WriteFile(temporary, data, 0o600); err != nil {
		return fmt.Errorf("write state: %w", err)
	}
	if err := os.Rename(temporary, path); err != nil {
		return fmt.Errorf("write state: %w", err)
	}
	return nil
}
