// Package launch is what the daemon runs, on the host and outside every sandbox, to start or end one machine of the oci backend.
//
// It exists because Node can neither mount nor hold a mount namespace of its own. One process does one job: it reads one
// JSON line from stdin, does it, prints one JSON line and exits. Everything it mounts lives in a mount namespace of
// its own, so a launcher that is killed at any point leaves no mount on the host: the kernel drops them with the last
// process of that namespace.
package launch

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// Longest job that is read: bounds a daemon gone wrong, far above any real one.
const maxJobBytes = 4 << 20

// A job is one line. Prepare may come on a line of its own before any other.
type job struct {
	Prepare *prepareJob `json:"prepare,omitempty"`
	Start   *startJob   `json:"start,omitempty"`
	End     *endJob     `json:"end,omitempty"`
	Probe   *probeJob   `json:"probe,omitempty"`
	Sweep   *sweepJob   `json:"sweep,omitempty"`
	Look    *lookJob    `json:"look,omitempty"`
	Resize  *resizeJob  `json:"resize,omitempty"`
}

type result struct {
	Ok     bool              `json:"ok"`
	Error  string            `json:"error,omitempty"`
	Killed bool              `json:"killed,omitempty"` // a signal ended the runtime: the job itself may be fine
	State  *state            `json:"state,omitempty"`
	Probed *probed           `json:"probed,omitempty"`
	Looked map[string]looked `json:"looked,omitempty"`
	Filter []byte            `json:"filter,omitempty"`
	Phases []phase           `json:"phases,omitempty"`
	began  time.Time         // of the phase under way
}

// A phase is a step and the microseconds it took.
type phase struct {
	Name string `json:"name"`
	Usec int64  `json:"usec"`
}

func (r *result) mark(name string) {
	now := time.Now()
	r.Phases = append(r.Phases, phase{name, now.Sub(r.began).Microseconds()})
	r.began = now
}

// Main does one job and returns the exit code. Without a name for it, it is one that comes as a line.
func Main() int {
	if len(os.Args) > 2 {
		if err := named(os.Args[2], os.Args[3:]); err != nil {
			fmt.Fprintf(os.Stderr, "runner launch %s: %v\n", os.Args[2], err)
			return 1
		}
		return 0
	}
	// Namespaces belong to threads: every step, and every child, must come from the one that unshared.
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

// wasKilled tells whether a program that the job ran was ended by a signal.
func wasKilled(err error) bool {
	var ended *exec.ExitError
	if !errors.As(err, &ended) {
		return false
	}
	status, ok := ended.Sys().(syscall.WaitStatus)
	return ok && status.Signaled()
}

func named(job string, args []string) error {
	switch job {
	case "enter":
		return enter(args)
	case "keep":
		return keep()
	case "vm":
		return vm()
	case "snapshot":
		return snapshot()
	case "tsc":
		_, err := fmt.Println(tscKhz())
		return err
	}
	return fmt.Errorf("there is no such job")
}

func work(r *result) error {
	if err := enterPrivateMounts(); err != nil {
		return err
	}
	input := bufio.NewReaderSize(io.LimitReader(os.Stdin, maxJobBytes), 64<<10)
	j, err := readJob(input)
	if err != nil {
		return err
	}
	prepared := &prepareJob{}
	if j.Prepare != nil {
		prepared = j.Prepare
		err := prepared.run()
		if err == nil {
			j, err = readJob(input)
		}
		if err != nil {
			prepared.undo()
			return err
		}
	}
	r.began = time.Now()
	switch {
	case j.Start != nil:
		return start(j.Start, prepared, r)
	case j.End != nil:
		return end(j.End, r)
	case j.Sweep != nil:
		sweep(j.Sweep)
		return nil
	case j.Look != nil:
		r.Looked, err = look(j.Look)
		return err
	case j.Resize != nil:
		return resize(j.Resize)
	case j.Probe != nil:
		r.Probed = probe(j.Probe)
		return nil
	}
	return fmt.Errorf("a job is start, end, sweep, look, resize or probe")
}

func readJob(input *bufio.Reader) (*job, error) {
	line, err := input.ReadBytes('\n')
	if err == io.EOF && len(line) == 0 {
		return nil, fmt.Errorf("no job came")
	}
	if err != nil {
		return nil, fmt.Errorf("read job: %w", err)
	}
	j := &job{}
	if err := json.Unmarshal(line, j); err != nil {
		return nil, fmt.Errorf("parse job: %w", err)
	}
	return j, nil
}
