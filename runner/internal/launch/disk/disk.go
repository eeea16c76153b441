// Package disk mounts the disk on which a session's files live: an ext4 image on a loop device or, where loop devices are not available, a
// tmpfs.
package disk

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"sandglass/runner/internal/launch/mount"
)

// A Disk describes the disk of one session.
type Disk struct {
	Image      string `json:"image"`       // "" for a tmpfs
	TmpfsBytes int64  `json:"tmpfs_bytes"` // size of the tmpfs
	Restore    string `json:"restore"`     // tar with the saved files of a tmpfs, or ""
	Template   string `json:"template"`    // empty image that a missing one is copied from
	Dirs       []Dir  `json:"dirs"`
	Files      []File `json:"files"`
	Binds      []Bind `json:"binds"`
}

// A Dir is a folder that is made on the disk if it is missing.
type Dir struct {
	Path string `json:"path"`
	UID  int    `json:"uid"`
	GID  int    `json:"gid"`
	Mode uint32 `json:"mode"`
}

// A File is written to the disk at every start.
type File struct {
	Path    string `json:"path"`
	Content string `json:"content"`
}

// A Bind is a path on the disk and where the sandbox sees it.
type Bind struct {
	Path     string `json:"path"`
	Target   string `json:"target"`
	Readonly bool   `json:"readonly"`
	Saved    bool   `json:"saved"` // a folder of the user's, whose files outlive the machine
}

// A Spare is an empty disk that a prepared launcher has mounted before it knows the session.
type Spare struct {
	Template string `json:"template"`
	Image    string `json:"image"`
	Target   string `json:"target"`
}

// How long a start waits for an earlier mount of the same image to go.
const releaseDeadline = 10 * time.Second

// Mount mounts the disk, or takes over the spare one if it fits, and returns its mount point.
func (d *Disk) Mount(sessionFolder string, spare *Spare) (string, error) {
	target := filepath.Join(sessionFolder, "disk")
	if claimed := spare.claim(d); claimed != "" {
		target = claimed
	} else if d.Image == "" {
		options := fmt.Sprintf("size=%d,mode=711", d.TmpfsBytes)
		if err := syscall.Mount("tmpfs", target, "tmpfs", syscall.MS_NOSUID|syscall.MS_NODEV, options); err != nil {
			return "", fmt.Errorf("mount a tmpfs as disk: %w", err)
		}
	} else if err := d.mountImage(target); err != nil {
		return "", err
	}
	return target, d.fill(target)
}

// fill makes the folders and files that every start needs.
func (d *Disk) fill(target string) error {
	for _, v := range d.Dirs {
		if err := mount.EnsureDir(filepath.Join(target, v.Path), v.UID, v.GID, os.FileMode(v.Mode)); err != nil {
			return err
		}
	}
	if d.Restore != "" {
		if err := restore(d.Restore, target); err != nil {
			return err
		}
	}
	for _, f := range d.Files {
		if err := os.WriteFile(filepath.Join(target, f.Path), []byte(f.Content), 0o644); err != nil {
			return fmt.Errorf("write %s: %w", f.Path, err)
		}
	}
	return nil
}

func (d *Disk) mountImage(target string) error {
	if _, err := os.Lstat(d.Image); err == nil {
		// An earlier machine may still have it mounted.
		if err := AwaitReleased(d.Image, time.Now().Add(releaseDeadline)); err != nil {
			return err
		}
	} else if err := copySparse(d.Template, d.Image); err != nil {
		return err
	}
	return mountLoop(d.Image, target)
}

// MountStopped mounts the disk image of a machine that has ended, read-only.
func MountStopped(image, target string, deadline time.Time) error {
	if err := AwaitReleased(image, deadline); err != nil {
		return err
	}
	return mountLoopAs(image, target, syscall.MS_NOSUID|syscall.MS_NODEV|syscall.MS_NOEXEC|syscall.MS_RDONLY, "")
}

func mountLoop(image, target string) error {
	// discard: deleted files give their space back to the host at once.
	return mountLoopAs(image, target, syscall.MS_NOSUID|syscall.MS_NODEV|syscall.MS_NOATIME, "discard,noinit_itable")
}

func mountLoopAs(image, target string, flags uintptr, options string) error {
	device, number, err := attachLoop(image)
	if err != nil {
		return err
	}
	defer device.Close()
	err = syscall.Mount(fmt.Sprintf("/dev/loop%d", number), target, "ext4", flags, options)
	if err != nil {
		return fmt.Errorf("mount disk: %w", err)
	}
	return nil
}

// Make copies the template and mounts the copy.
func (s *Spare) Make() error {
	if err := copySparse(s.Template, s.Image); err != nil {
		return err
	}
	return mountLoop(s.Image, s.Target)
}

// claim renames the spare image to the image of a session and returns its mount point, or "" if the spare disk does not fit.
func (s *Spare) claim(d *Disk) string {
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
