package guest

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Where things are in the machine's own root, which no program of the session sees.
const (
	imageDir  = "/image"
	diskDir   = "/disk"
	groupDir  = "/cgroup"
	baseDir   = "/base"
	rootDir   = "/root"
	runnerDir = "/runner"
)

// Serial numbers of the disks.
const (
	imageSerial = "image"
	diskSerial  = "session"
)

const diskDeadline = 10 * time.Second

// A mount is one filesystem.
type mount struct {
	source, target, kind string
	flags                uintptr
	options              string
}

func (m mount) do() error {
	if err := os.MkdirAll(m.target, 0o755); err != nil {
		return fmt.Errorf("make mount point %s: %w", m.target, err)
	}
	if err := syscall.Mount(m.source, m.target, m.kind, m.flags, m.options); err != nil {
		return fmt.Errorf("mount %s: %w", m.target, err)
	}
	return nil
}

func mountAll(mounts []mount) error {
	for _, m := range mounts {
		if err := m.do(); err != nil {
			return err
		}
	}
	return nil
}

func mountEarly() error {
	return mountAll([]mount{
		{"proc", "/proc", "proc", 0, ""},
		{"sysfs", "/sys", "sysfs", 0, ""},
		{"devtmpfs", "/dev", "devtmpfs", 0, ""},
	})
}

// mountImage mounts the image's disk, which is the same for every session of this image.
func mountImage() error {
	device, err := findDisk(imageSerial)
	if err != nil {
		return err
	}
	return mount{device, imageDir, "squashfs", syscall.MS_RDONLY, ""}.do()
}

// placeRunner puts this program where sessions see it: a copy, since the initramfs itself cannot be shown in part.
func placeRunner() error {
	if err := (mount{"tmpfs", runnerDir, "tmpfs", quietMount, "mode=755"}).do(); err != nil {
		return err
	}
	source, err := os.Open(Program)
	if err != nil {
		return fmt.Errorf("place the runner: %w", err)
	}
	defer source.Close()
	target, err := os.OpenFile(runnerDir+"/runner", os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		return fmt.Errorf("place the runner: %w", err)
	}
	defer target.Close()
	if _, err := io.Copy(target, source); err != nil {
		return fmt.Errorf("place the runner: %w", err)
	}
	return nil
}

// mountRoot puts the session's root filesystem together at rootDir.
func mountRoot(cfg *config) error {
	device, err := findDisk(diskSerial)
	if err != nil {
		return err
	}
	if err := (mount{device, diskDir, "ext4", syscall.MS_NOSUID | syscall.MS_NODEV | syscall.MS_NOATIME, ""}).do(); err != nil {
		return err
	}
	if err := layOutDisk(cfg); err != nil {
		return err
	}
	lower := []string{baseDir}
	for i := len(cfg.Layers) - 1; i >= 0; i-- {
		lower = append(lower, filepath.Join(imageDir, cfg.Layers[i]))
	}
	options, flags := "lowerdir="+strings.Join(lower, ":"), uintptr(syscall.MS_NODEV)
	if cfg.ReadonlyRoot {
		flags |= syscall.MS_RDONLY
	} else {
		options += ",upperdir=" + diskDir + "/upper,workdir=" + diskDir + "/work"
	}
	return mount{"root", rootDir, "overlay", flags, options}.do()
}

// A place is a folder that has to be there.
type place struct {
	path  string
	mode  uint32
	owner int
}

// layOutBase makes the topmost layer of every image: the folders that something is mounted on, whatever the image has.
func layOutBase() error {
	places := []place{{"", 0o755, 0}}
	for _, name := range []string{"/workspace", "/home", "/home/sandbox", "/etc", "/proc", "/sys", "/dev", "/run", "/.sandglass"} {
		places = append(places, place{name, 0o755, 0})
	}
	return makePlaces(baseDir, append(places, place{"/tmp", 0o1777, 0}))
}

// layOutDisk makes what every session's disk has. What an earlier run left is as the session wants it.
func layOutDisk(cfg *config) error {
	err := makePlaces(diskDir, []place{
		{"/workspace", 0o755, sandboxID}, {"/home", 0o750, sandboxID}, {"/etc", 0o755, 0}, {"/upper", 0o755, 0}, {"/work", 0o755, 0},
	})
	if err != nil {
		return err
	}
	for name, content := range cfg.Files {
		for _, dir := range []string{diskDir, baseDir} {
			path := filepath.Join(dir, "etc", name)
			if _, err := os.Lstat(path); err == nil {
				continue
			}
			if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
				return fmt.Errorf("write %s: %w", path, err)
			}
		}
	}
	return nil
}

func makePlaces(dir string, places []place) error {
	for _, p := range places {
		path := filepath.Join(dir, p.path)
		if info, err := os.Lstat(path); err == nil && info.IsDir() {
			continue
		}
		if err := os.Mkdir(path, 0o700); err != nil {
			return fmt.Errorf("lay out: %w", err)
		}
		if err := os.Chown(path, p.owner, p.owner); err != nil {
			return fmt.Errorf("lay out: %w", err)
		}
		// Go's own Chmod has the sticky bit elsewhere.
		if err := syscall.Chmod(path, p.mode); err != nil {
			return fmt.Errorf("lay out %s: %w", path, err)
		}
	}
	return nil
}

// findDisk gives the device that the host gave this serial number.
func findDisk(serial string) (string, error) {
	for deadline := time.Now().Add(diskDeadline); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		files, err := filepath.Glob("/sys/block/vd*/serial")
		if err != nil {
			return "", err
		}
		for _, file := range files {
			content, err := os.ReadFile(file)
			if err == nil && strings.TrimSpace(string(content)) == serial {
				return filepath.Join("/dev", filepath.Base(filepath.Dir(file))), nil
			}
		}
	}
	return "", fmt.Errorf("no disk has the serial number %s", serial)
}
