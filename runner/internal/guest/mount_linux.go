package guest

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"unsafe"
)

// Mount points in the machine's own root filesystem, which no program of the session sees.
const (
	imageDir  = "/image"
	topDir    = "/top"
	diskDir   = "/disk"
	groupDir  = "/cgroup"
	baseDir   = "/base"
	namesDir  = "/names"
	rootDir   = "/root"
	runnerDir = "/runner"
	// packagesDir has a folder for each package.
	packagesDir = "/packages"
)

// Serial numbers of the disks.
const (
	imageSerial = "image"
	topSerial   = "top"
	diskSerial  = "session"
	// packageSerial begins the serial number of a package's disk; its name follows.
	packageSerial = "package-"
)

const (
	quietMount  = syscall.MS_NOSUID | syscall.MS_NODEV
	quietNoexec = quietMount | syscall.MS_NOEXEC
)

// A mount is one filesystem and its mount point.
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

// mountImage mounts the disks of the image, which are the same for every session with this image.
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

// mountPackages mounts the disks of the packages, which are the same for every session that starts from one snapshot.
func (f *bootOptions) mountPackages() error {
	for _, name := range f.packages {
		device, err := findDisk(packageSerial + name)
		if err != nil {
			return err
		}
		if err := (mount{device, filepath.Join(packagesDir, name), "squashfs", syscall.MS_RDONLY | quietMount, ""}).do(); err != nil {
			return err
		}
	}
	return nil
}

// findDisk returns the device with a serial number, which the host has set.
func findDisk(serial string) (string, error) {
	return findDevice("/sys/block/vd*/serial", serial, deviceDeadline)
}

const (
	sysOpenat2    = 437
	oPath         = 0x200000
	resolveInRoot = 0x10
)

type openHow struct{ flags, mode, resolve uint64 }

// inRoot opens a path in the session's root filesystem as a path only (O_PATH). The kernel resolves links inside that root.
func inRoot(path string) (*os.File, error) {
	root, err := syscall.Open(rootDir, oPath|syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open root: %w", err)
	}
	defer syscall.Close(root)
	name, err := syscall.BytePtrFromString(path)
	if err != nil {
		return nil, err
	}
	how := openHow{flags: oPath | syscall.O_CLOEXEC, resolve: resolveInRoot}
	fd, _, errno := syscall.Syscall6(sysOpenat2, uintptr(root), uintptr(unsafe.Pointer(name)), uintptr(unsafe.Pointer(&how)), unsafe.Sizeof(how), 0, 0)
	if errno != 0 {
		return nil, fmt.Errorf("open %s in the root: %w", path, errno)
	}
	return os.NewFile(fd, path), nil
}

func fdPath(file *os.File) string { return fmt.Sprintf("/proc/self/fd/%d", file.Fd()) }
