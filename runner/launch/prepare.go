package launch

import (
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"syscall"
)

// A prepareJob is done before it is known what will be started, because some steps take milliseconds and are the same for every
// machine. Entering a cgroup waits until every processor passed through the scheduler; a disk has to be attached and mounted; a
// user namespace takes a process.
type prepareJob struct {
	Groups []group `json:"groups"`
	// Home is where this process goes to leave the groups again: a cgroup.procs file for each.
	Home []string   `json:"home"`
	Disk *spareDisk `json:"disk"`
	// IDs are those that the next machine most likely has.
	IDs []idRange `json:"ids"`
	// Runtime is started ahead, for the machine to come.
	Runtime *runtimePlan `json:"runtime"`
	users   *os.File
	runtime *ociRuntime
}

// A spareDisk is an empty disk that waits for a session.
type spareDisk struct {
	Template string `json:"template"`
	Image    string `json:"image"`
	Target   string `json:"target"`
}

func (p *prepareJob) run() error {
	if err := enterGroups(p.Groups); err != nil {
		return err
	}
	var err error
	if p.Runtime != nil {
		if p.runtime, err = p.Runtime.start(); err != nil {
			return err
		}
	}
	if len(p.IDs) > 0 {
		if p.users, err = userNamespace(p.IDs); err != nil {
			return err
		}
	}
	if p.Disk == nil {
		return nil
	}
	if err := copySparse(p.Disk.Template, p.Disk.Image); err != nil {
		return err
	}
	return mountLoop(p.Disk.Image, p.Disk.Target)
}

// undo is for a launcher whose daemon went. What cannot be removed here is found by the next daemon.
func (p *prepareJob) undo() {
	if p.runtime != nil {
		p.runtime.stop()
	}
	for _, path := range p.Home {
		_ = os.WriteFile(path, []byte(strconv.Itoa(os.Getpid())), 0)
	}
	for _, g := range p.Groups {
		_ = removeTree(g.Dir)
		_ = syscall.Rmdir(filepath.Dir(g.Dir))
	}
	if p.Disk != nil {
		_ = os.Remove(p.Disk.Image)
	}
}

// userNamespace gives the one made ahead if it has these ids, else a new one.
func (p *prepareJob) userNamespace(ids []idRange) (*os.File, error) {
	if p.users != nil && reflect.DeepEqual(p.IDs, ids) {
		return p.users, nil
	}
	return userNamespace(ids)
}

// claim makes the spare disk the image of a session and tells where it is mounted; "" if it does not fit.
func (s *spareDisk) claim(d *disk) string {
	if s == nil {
		return ""
	}
	if _, err := os.Lstat(d.Image); d.Image != "" && d.Template == s.Template && os.IsNotExist(err) {
		if os.Rename(s.Image, d.Image) == nil {
			return s.Target
		}
	}
	_ = os.Remove(s.Image)
	return ""
}
