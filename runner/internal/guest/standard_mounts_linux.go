package guest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

const (
	processors    = "sys/devices/system/cpu"
	terminalGroup = 5
)

// A device is a device node that every program may use.
type device struct {
	name         string
	major, minor int
}

// fillDev makes the standard device nodes, links and mounts of /dev.
func fillDev(terminals int, nested bool) error {
	dev := rootDir + "/dev"
	devices := []device{{"null", 1, 3}, {"zero", 1, 5}, {"full", 1, 7}, {"random", 1, 8}, {"urandom", 1, 9}, {"tty", 5, 0}}
	if nested {
		devices = append(devices, device{"kvm", 10, 232})
	}
	for _, d := range devices {
		path := filepath.Join(dev, d.name)
		if err := syscall.Mknod(path, syscall.S_IFCHR|0o666, d.major<<8|d.minor); err != nil {
			return fmt.Errorf("make %s: %w", path, err)
		}
		if err := os.Chmod(path, 0o666); err != nil {
			return fmt.Errorf("make %s: %w", path, err)
		}
	}
	for name, target := range map[string]string{
		"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2", "ptmx": "pts/ptmx",
	} {
		if err := os.Symlink(target, filepath.Join(dev, name)); err != nil {
			return fmt.Errorf("make /dev: %w", err)
		}
	}
	options := fmt.Sprintf("newinstance,ptmxmode=0666,mode=0620,gid=%d,max=%d", terminalGroup, terminals)
	return mountAll([]mount{
		{"devpts", dev + "/pts", "devpts", syscall.MS_NOSUID | syscall.MS_NOEXEC, options},
		{"tmpfs", dev + "/shm", "tmpfs", quietNoexec, "size=64m,mode=1777"},
	})
}

// fillSys makes a /sys with only the list of processors, which libraries count there.
func fillSys() error {
	dir := filepath.Join(rootDir, processors)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make /sys: %w", err)
	}
	for _, name := range []string{"online", "possible", "present", "kernel_max"} {
		content, err := os.ReadFile(filepath.Join("/", processors, name))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), content, 0o444)
		}
		if err != nil {
			return fmt.Errorf("make /sys: %w", err)
		}
	}
	folders, err := filepath.Glob(filepath.Join("/", processors, "cpu[0-9]*"))
	if err != nil {
		return err
	}
	for _, folder := range folders {
		if err := os.Mkdir(filepath.Join(dir, filepath.Base(folder)), 0o755); err != nil {
			return fmt.Errorf("make /sys: %w", err)
		}
	}
	return remountReadonly(rootDir+"/sys", quietNoexec)
}
