// Package oci does the launcher's jobs for the oci backend: it starts, resizes and ends machines that an OCI runtime makes.
//
// Node can neither mount nor stay in a mount namespace of its own, so the daemon starts one launcher process per job. The process reads a
// job from stdin, does it, writes one result to stdout and exits (runner/LAUNCHER.md). All its mounts are in a mount namespace of its own:
// a launcher that is killed at any point leaves no mount on the host, because the kernel drops them with the last process of that
// namespace.
package oci

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"sandglass/runner/internal/launch/mount"
	"sandglass/runner/internal/strictjson"
)

// A request is one line of stdin. Exactly one field is set. A prepare job may come on a line of its own before any other.
type request struct {
	Prepare *prepareJob `json:"prepare,omitempty"`
	Start   *startJob   `json:"start,omitempty"`
	End     *endJob     `json:"end,omitempty"`
	Probe   *probeJob   `json:"probe,omitempty"`
	Sweep   *sweepJob   `json:"sweep,omitempty"`
	Find    *findJob    `json:"find,omitempty"`
	Resize  *resizeJob  `json:"resize,omitempty"`
}

type result struct {
	Ok     bool             `json:"ok"`
	Error  string           `json:"error,omitempty"`
	Killed bool             `json:"killed,omitempty"` // a signal ended the runtime: the same job may succeed when it is repeated
	State  *state           `json:"state,omitempty"`
	Probed *probed          `json:"probed,omitempty"`
	Found  map[string]found `json:"found,omitempty"`
	Filter []byte           `json:"filter,omitempty"`
	Phases []phase          `json:"phases,omitempty"`
	began  time.Time        // of the current phase
}

// A phase is a step of a job and its duration in microseconds.
type phase struct {
	Name string `json:"name"`
	Usec int64  `json:"usec"`
}

func (r *result) mark(name string) {
	now := time.Now()
	r.Phases = append(r.Phases, phase{name, now.Sub(r.began).Microseconds()})
	r.began = now
}

// Main does one job and returns the exit status.
func Main() int {
	// Namespaces belong to threads: every step, and every child, must come from the thread that called unshare.
	runtime.LockOSThread()
	r := &result{}
	if err := work(r); err != nil {
		r.Error, r.Killed = err.Error(), wasKilled(err)
	} else {
		r.Ok = true
	}
	if err := json.NewEncoder(os.Stdout).Encode(r); err != nil || !r.Ok {
		return 1
	}
	return 0
}

// wasKilled tells whether a signal ended a program that the job ran.
func wasKilled(err error) bool {
	var ended *exec.ExitError
	if !errors.As(err, &ended) {
		return false
	}
	status, ok := ended.Sys().(syscall.WaitStatus)
	return ok && status.Signaled()
}

func work(r *result) error {
	if err := mount.EnterPrivate(); err != nil {
		return err
	}
	input := strictjson.Input()
	j := &request{}
	if err := strictjson.ReadLine(input, j); err != nil {
		return err
	}
	prepared := &prepareJob{}
	if j.Prepare != nil {
		prepared = j.Prepare
		err := prepared.run()
		if err == nil {
			j = &request{}
			err = strictjson.ReadLine(input, j)
		}
		if err != nil {
			prepared.undo()
			return err
		}
	}
	r.began = time.Now()
	return j.do(prepared, r)
}

func (j *request) do(prepared *prepareJob, r *result) (err error) {
	switch {
	case j.Start != nil:
		return start(j.Start, prepared, r)
	case j.End != nil:
		return end(j.End, r)
	case j.Sweep != nil:
		sweep(j.Sweep)
	case j.Find != nil:
		r.Found, err = find(j.Find)
	case j.Resize != nil:
		err = resize(j.Resize)
	case j.Probe != nil:
		r.Probed = probe(j.Probe)
	default:
		err = fmt.Errorf("the job has no kind that is known")
	}
	return err
}
