package oci

import (
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"syscall"

	"sandglass/runner/internal/launch/cgroup"
	"sandglass/runner/internal/launch/disk"
	"sandglass/runner/internal/launch/userns"
)

// A prepareJob is done before the daemon knows the session, because some steps take milliseconds and are the same for every machine:
// entering a cgroup waits until every processor has passed through the scheduler, a disk has to be attached and mounted, a user namespace
// needs a process.
type prepareJob struct {
	Groups []cgroup.Group `json:"groups"`
	// Home are the cgroup.procs files through which this process leaves the groups again.
	Home []string    `json:"home"`
	Disk *disk.Spare `json:"disk"`
	// IDs are the ids that the next machine most likely gets.
	IDs []userns.Range `json:"ids"`
	// Runtime is started before its configuration is known; nil if it is started with the machine.
	Runtime *runtimePlan `json:"runtime"`
	users   *os.File
	runtime *ociRuntime
}

func (p *prepareJob) run() error {
	if err := cgroup.Enter(p.Groups); err != nil {
		return err
	}
	var err error
	if p.Runtime != nil {
		if p.runtime, err = p.Runtime.start(); err != nil {
			return err
		}
	}
	if len(p.IDs) > 0 {
		if p.users, err = userns.New(p.IDs); err != nil {
			return err
		}
	}
	if p.Disk == nil {
		return nil
	}
	return p.Disk.Make()
}

// undo removes what was prepared when the daemon is gone. The next daemon finds what cannot be removed here.
func (p *prepareJob) undo() {
	if p.runtime != nil {
		p.runtime.stop()
	}
	for _, path := range p.Home {
		_ = os.WriteFile(path, []byte(strconv.Itoa(os.Getpid())), 0)
	}
	for _, g := range p.Groups {
		_ = cgroup.RemoveTree(g.Dir)
		_ = syscall.Rmdir(filepath.Dir(g.Dir))
	}
	if p.Disk != nil {
		_ = os.Remove(p.Disk.Image)
	}
}

// userNamespace returns the prepared namespace if it has these ids, or else a new one.
func (p *prepareJob) userNamespace(ids []userns.Range) (*os.File, error) {
	if p.users != nil && reflect.DeepEqual(p.IDs, ids) {
		return p.users, nil
	}
	return userns.New(ids)
}
