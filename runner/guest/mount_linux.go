package guest

import (
	"fmt"
	"os"
	"syscall"
)

// Where things are in the machine's own root, which no program of the session sees.
const (
	imageDir  = "/image"
	topDir    = "/top"
	diskDir   = "/disk"
	groupDir  = "/cgroup"
	baseDir   = "/base"
	namesDir  = "/names"
	rootDir   = "/root"
	runnerDir = "/runner"
)

// Serial numbers of the disks.
const (
	imageSerial = "image"
	topSerial   = "top"
	diskSerial  = "session"
)

const (
	quietMount  = syscall.MS_NOSUID | syscall.MS_NODEV
	quietNoexec = quietMount | syscall.MS_NOEXEC
)

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

// mountImage mounts the image's disks, which are the same for every session of this image.
func mountImage() error {
	for serial, target := range map[string]string{imageSerial: imageDir, topSerial: topDir} {
		device, err := findDisk(serial)
		if err != nil {
			return err
		}
		if err := (mount{device, target, "squashfs", syscall.MS_RDONLY, ""}).do(); err != nil {
			return err
		}
	}
	return nil
}

// findDisk gives the device that the host gave this serial number.
func findDisk(serial string) (string, error) {
	return findDevice("/sys/block/vd*/serial", serial)
}
