package launch

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
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
	// Empty is an empty folder of the host, which a read-only overlay takes for its second layer; "" for a bind mount.
	Empty string `json:"empty,omitempty"`
	// Stack is an image's layers, in place of Source.
	Stack *stack `json:"stack,omitempty"`
	// places is a folder with what this layer lacks to mount on; "" for nothing.
	places string
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
func buildRootfs(j *startJob, mounted string, users *os.File, held []heldFolder) error {
	for i := range j.Layers {
		l := &j.Layers[i]
		if err := l.show(j.Rootfs, mounted, users); err != nil {
			return err
		}
		if missing := j.missingPlaces(i); len(missing) > 0 {
			if err := l.addPlaces(j.Rootfs, filepath.Join(mounted, "places", strconv.Itoa(i)), missing); err != nil {
				return err
			}
			if err := l.show(j.Rootfs, mounted, users); err != nil {
				return err
			}
		}
	}
	for _, s := range j.Disk.Shown {
		attr := uint64(attrNosuid | attrNodev)
		if s.Readonly {
			attr |= attrReadonly
		}
		target, err := mountPoint(j.Rootfs, s.Target)
		if err != nil {
			return err
		}
		err = bind(filepath.Join(mounted, s.Path), target, attr, false)
		target.close()
		if err != nil {
			return err
		}
	}
	if err := j.SocketFolder.show(j.Rootfs); err != nil {
		return err
	}
	return attachFolders(j.Rootfs, held)
}

func (l *layer) show(rootfs, mounted string, users *os.File) error {
	target, err := mountPoint(rootfs, l.Target)
	if err != nil {
		return err
	}
	defer target.close()
	if l.Stack != nil {
		return l.showStack(target, mounted, users)
	}
	if l.Upper != "" {
		return l.showWritable(rootfs, target, mounted, users)
	}
	if l.Empty == "" {
		return bind(l.Source, target, attrReadonly|attrNosuid|attrNodev, l.Recursive)
	}
	if err := l.showPrivate(l.Source, target, l.places); err != nil || !l.Recursive {
		return err
	}
	below, err := mountsBelow(l.Source)
	if err != nil {
		return err
	}
	for _, path := range below {
		inner, err := mountPoint(rootfs, filepath.Join(l.Target, path))
		if err != nil {
			return err
		}
		err = l.showPrivate(filepath.Join(l.Source, path), inner, "")
		inner.close()
		if err != nil {
			return err
		}
	}
	return nil
}

// showPrivate shows a folder read-only through an overlay of the machine's own, under the folder over unless that is "".
//
// SECURITY: with a bind mount every machine and the host would share the very inodes: whoever watches one sees when others
// use it, and whoever locks it locks it for all.
func (l *layer) showPrivate(source string, target place, over string) error {
	upper, lower := over, source
	if over == "" {
		upper, lower = source, l.Empty
	}
	first, err := openPath(upper)
	if err != nil {
		return err
	}
	defer first.close()
	second, err := openPath(lower)
	if err != nil {
		return err
	}
	defer second.close()
	return overlay(target, "lowerdir="+first.path()+":"+second.path()+","+followNothing)
}

// showWritable shows a writable view of a layer whose owners are shifted into the sandbox's ids.
func (l *layer) showWritable(rootfs string, target place, mounted string, users *os.File) error {
	shifted, err := cloneTree(l.Source, false)
	if err != nil {
		return err
	}
	defer shifted.close()
	if err := shifted.setAttr(attrReadonly|attrNosuid|attrNodev, int(users.Fd())); err != nil {
		return fmt.Errorf("shift the owners of %s: %w", l.Source, err)
	}
	// The overlay needs its lower layer attached somewhere, and keeps the mount itself: the target serves for both.
	if err := shifted.attach(target); err != nil {
		return err
	}
	lower, err := mountPoint(rootfs, l.Target)
	if err != nil {
		return err
	}
	defer lower.close()
	return l.withChanges(mounted, func(changes string) error {
		return overlay(lower, "lowerdir="+lower.path()+","+changes+","+followNothing)
	})
}

// withChanges gives the options of an overlay that keeps what is changed in it on the disk.
func (l *layer) withChanges(mounted string, mount func(options string) error) error {
	upper, err := openPath(filepath.Join(mounted, l.Upper))
	if err != nil {
		return err
	}
	defer upper.close()
	work, err := openPath(filepath.Join(mounted, l.Work))
	if err != nil {
		return err
	}
	defer work.close()
	return mount("upperdir=" + upper.path() + ",workdir=" + work.path() + ",metacopy=off,index=off")
}

// SECURITY: a folder that the sandbox renames is copied, or stays. With redirects it could move the mount points of the next start,
// whatever this kernel's default is.
const followNothing = "redirect_dir=nofollow"

// The options name layers by descriptor: the sandbox can read them, and paths of the host are not its business.
func overlay(target place, options string) error {
	err := syscall.Mount("overlay", target.path(), "overlay", syscall.MS_NOSUID|syscall.MS_NODEV|syscall.MS_NOATIME, options)
	if err != nil {
		return fmt.Errorf("mount overlay on %s: %w", target.name, err)
	}
	return nil
}

// mountsBelow lists the mounts inside a folder, by their path in it, parents before children.
func mountsBelow(folder string) ([]string, error) {
	data, err := os.ReadFile("/proc/thread-self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("list mounts: %w", err)
	}
	var below []string
	for _, line := range strings.Split(string(data), "\n") {
		fields := strings.Fields(line)
		if len(fields) < 5 || !strings.HasPrefix(fields[4], folder+"/") {
			continue
		}
		path := octal.Replace(fields[4][len(folder):])
		if info, err := os.Stat(filepath.Join(folder, path)); err == nil && info.IsDir() {
			below = append(below, path)
		}
	}
	return below, nil
}

// How mountinfo writes what would break its columns.
var octal = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
