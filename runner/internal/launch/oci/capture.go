package oci

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"time"

	"sandglass/runner/internal/launch/disk"
	"sandglass/runner/internal/launch/layertar"
	"sandglass/runner/internal/launch/mount"
	"sandglass/runner/internal/launch/userns"
	"sandglass/runner/internal/strictjson"
)

// A captureJob asks for a layer of an image, as a tar on stdout. Exactly one of Disk, Files and Host is set.
type captureJob struct {
	Disk  *capturedDisk  `json:"disk"`
	Files *capturedFiles `json:"files"`
	Host  []hostFiles    `json:"host"`
	// IDs of the session whose disk it is.
	IDs         []userns.Range `json:"ids"`
	Excluded    []string       `json:"excluded"`
	Certificate string         `json:"certificate"`
	MaxEntries  int            `json:"max_entries"`
	MaxBytes    int64          `json:"max_bytes"`
}

// A capturedDisk is the disk of a session that has stopped. Folder is the upper layer on it, and Mount an empty folder of the daemon's.
type capturedDisk struct {
	Image  string `json:"image"`
	Folder string `json:"folder"`
	Mount  string `json:"mount"`
}

// A hostFiles is a folder of the host and its path in the layer.
type hostFiles struct {
	Source string `json:"source"`
	Target string `json:"target"`
}

// A captureResult is the last line of stderr.
type captureResult struct {
	Ok      bool   `json:"ok"`
	Code    string `json:"code,omitempty"`
	Entry   string `json:"entry,omitempty"`
	Issue   string `json:"issue,omitempty"`
	Entries int    `json:"entries"`
	Bytes   int64  `json:"bytes"`
}

const outputBuffer = 1 << 20

// nobody is the owner of files whose owner the session does not have.
const nobody = 65534

// Capture does one job and returns the exit status.
func Capture() int {
	// Mount namespace and root directory belong to this thread.
	runtime.LockOSThread()
	r := &captureResult{}
	if err := capture(r); err != nil {
		r.Code, r.Issue = "failed", err.Error()
		var refused *layertar.Refusal
		if errors.As(err, &refused) {
			r.Code, r.Entry, r.Issue = refused.Code, refused.Entry, refused.Issue
		}
	} else {
		r.Ok = true
	}
	if err := json.NewEncoder(os.Stderr).Encode(r); err != nil || !r.Ok {
		return 1
	}
	return 0
}

func capture(r *captureResult) error {
	if err := mount.EnterPrivate(); err != nil {
		return err
	}
	j := &captureJob{}
	if err := strictjson.ReadLine(strictjson.Input(), j); err != nil {
		return err
	}
	out := bufio.NewWriterSize(os.Stdout, outputBuffer)
	w := layertar.New(out, j.settings())
	err := j.write(w)
	r.Entries, r.Bytes = w.Entries, w.Bytes
	if err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	return out.Flush()
}

func (j *captureJob) settings() layertar.Settings {
	s := layertar.Settings{MaxEntries: j.MaxEntries, MaxBytes: j.MaxBytes, Certificate: j.Certificate, Excluded: map[string]bool{}}
	for _, path := range j.Excluded {
		s.Excluded[path] = true
	}
	s.Owner = func(uid, gid uint32) (int, int) { return int(uid), int(gid) }
	switch {
	case j.Disk != nil:
		s.IsUpper = true
		s.Owner = func(uid, gid uint32) (int, int) { return insideID(j.IDs, uid), insideID(j.IDs, gid) }
	case j.Files != nil:
		j.Files.change(&s)
	default:
		s.PublicOnly = true
		s.Owner = func(uint32, uint32) (int, int) { return 0, 0 }
	}
	return s
}

func (j *captureJob) write(w *layertar.Writer) error {
	switch {
	case j.Disk != nil:
		return j.Disk.write(w)
	case j.Files != nil:
		return j.Files.write(w)
	case len(j.Host) > 0:
		for _, h := range j.Host {
			if h.Target != "" {
				if err := w.Folder(h.Target, 0o755, 0, 0); err != nil {
					return err
				}
			}
			if err := w.Tree(h.Source, h.Target); err != nil {
				return err
			}
		}
		return nil
	}
	return fmt.Errorf("the job has no kind that is known")
}

func insideID(ids []userns.Range, id uint32) int {
	for _, r := range ids {
		if int(id) >= r.Outside && int(id) < r.Outside+r.Size {
			return r.Inside + int(id) - r.Outside
		}
	}
	return nobody
}

// write mounts the disk and writes the upper layer. The machine has ended: nobody changes the files meanwhile.
func (d *capturedDisk) write(w *layertar.Writer) error {
	if err := disk.MountStopped(d.Image, d.Mount, time.Now().Add(releaseDeadline)); err != nil {
		return err
	}
	if err := enterRoot(d.Mount, d.Folder); err != nil {
		return err
	}
	return w.Tree("/", "")
}

const releaseDeadline = 10 * time.Second

// enterRoot makes a folder below a mount point the root of this thread.
//
// SECURITY: from here on no link of a sandbox leads out of the folder.
func enterRoot(mounted, folder string) error {
	root, err := mount.OpenPoint(mounted, "/"+folder)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := syscall.Fchdir(root.FD); err != nil {
		return fmt.Errorf("enter %s: %w", folder, err)
	}
	if err := syscall.Chroot("."); err != nil {
		return fmt.Errorf("make %s the root: %w", folder, err)
	}
	return os.Chdir("/")
}
