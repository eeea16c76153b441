package launch

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// A disk is where a session's files live: an ext4 image on a loop device or, where loop devices are not to be had, a tmpfs.
type disk struct {
	Image      string   `json:"image"`       // "" for a tmpfs
	TmpfsBytes int64    `json:"tmpfs_bytes"` // size of the tmpfs
	Restore    string   `json:"restore"`     // a tar that a tmpfs is filled from, or ""
	Template   string   `json:"template"`    // an empty image that a missing one is copied from
	Dirs       []dir    `json:"dirs"`
	Files      []text   `json:"files"`
	Shown      []onDisk `json:"shown"`
}

type dir struct {
	Path string `json:"path"`
	UID  int    `json:"uid"`
	GID  int    `json:"gid"`
	Mode uint32 `json:"mode"`
}

type text struct {
	Path    string `json:"path"`
	Content string `json:"content"`
}

// An onDisk is a place on the disk and where the sandbox sees it.
type onDisk struct {
	Path     string `json:"path"`
	Target   string `json:"target"`
	Readonly bool   `json:"readonly"`
	Folder   bool   `json:"folder"` // the user's, and kept
}

// A layer is a host folder that the sandbox sees: as it is and read-only, or under an overlay that takes its changes.
type layer struct {
	Source    string `json:"source"`
	Target    string `json:"target"`
	Recursive bool   `json:"recursive"`
	// Upper is a folder on the disk, with work beside it, and makes the layer writable.
	Upper string `json:"upper,omitempty"`
	Work  string `json:"work,omitempty"`
}

// mount makes the disk ready, taking the spare one if that fits, and tells where it is.
func (d *disk) mount(folder string, spare *spareDisk) (string, error) {
	target := filepath.Join(folder, "disk")
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
	for _, v := range d.Dirs {
		if err := ensureDir(filepath.Join(target, v.Path), v.UID, v.GID, os.FileMode(v.Mode)); err != nil {
			return "", err
		}
	}
	if d.Restore != "" {
		if err := unpack(d.Restore, target); err != nil {
			return "", err
		}
	}
	for _, f := range d.Files {
		if err := os.WriteFile(filepath.Join(target, f.Path), []byte(f.Content), 0o644); err != nil {
			return "", fmt.Errorf("write %s: %w", f.Path, err)
		}
	}
	return target, nil
}

func (d *disk) mountImage(target string) error {
	if _, err := os.Lstat(d.Image); err == nil {
		// It was mounted before, and may still be.
		if err := awaitReleased(d.Image, time.Now().Add(10*time.Second)); err != nil {
			return err
		}
	} else if err := copySparse(d.Template, d.Image); err != nil {
		return err
	}
	return mountLoop(d.Image, target)
}

func mountLoop(image, target string) error {
	device, number, err := attachLoop(image)
	if err != nil {
		return err
	}
	defer device.Close()
	// Deleted files give their space back to the host at once.
	err = syscall.Mount(fmt.Sprintf("/dev/loop%d", number), target, "ext4", syscall.MS_NOSUID|syscall.MS_NODEV|syscall.MS_NOATIME, "discard,noinit_itable")
	if err != nil {
		return fmt.Errorf("mount disk: %w", err)
	}
	return nil
}

// buildRootfs puts the root filesystem together, parents before children.
func buildRootfs(j *startJob, mounted string) error {
	var ids *os.File
	defer func() {
		if ids != nil {
			ids.Close()
		}
	}()
	for _, l := range j.Layers {
		target := filepath.Join(j.Rootfs, l.Target)
		if l.Upper == "" {
			if err := bind(l.Source, target, attrReadonly|attrNosuid|attrNodev, l.Recursive); err != nil {
				return err
			}
			continue
		}
		if ids == nil {
			var err error
			if ids, err = userNamespace(j.IDs); err != nil {
				return err
			}
		}
		if err := overlay(l, target, mounted, ids); err != nil {
			return err
		}
	}
	for _, s := range j.Disk.Shown {
		attr := uint64(attrNosuid | attrNodev)
		if s.Readonly {
			attr |= attrReadonly
		}
		if err := bind(filepath.Join(mounted, s.Path), filepath.Join(j.Rootfs, s.Target), attr, false); err != nil {
			return err
		}
	}
	return nil
}

// overlay mounts a writable view of a layer whose owners are shifted into the sandbox's ids.
func overlay(l layer, target, mounted string, ids *os.File) error {
	lower, err := cloneTree(l.Source, false)
	if err != nil {
		return err
	}
	defer lower.close()
	if err := lower.setAttr(attrReadonly|attrNosuid|attrNodev, int(ids.Fd())); err != nil {
		return fmt.Errorf("shift the owners of %s: %w", l.Source, err)
	}
	// The overlay needs a path for its lower layer, and keeps the mount itself: the target serves for both.
	if err := lower.attach(target); err != nil {
		return err
	}
	options := fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", target, filepath.Join(mounted, l.Upper), filepath.Join(mounted, l.Work))
	if err := syscall.Mount("overlay", target, "overlay", syscall.MS_NOSUID|syscall.MS_NODEV|syscall.MS_NOATIME, options); err != nil {
		return fmt.Errorf("mount overlay on %s: %w", l.Target, err)
	}
	return nil
}
