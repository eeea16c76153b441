package disk

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
	"unsafe"
)

const (
	loopConfigure = 0x4C0A
	loopGetFree   = 0x4C82
	loopAutoclear = 4
)

// The kernel's struct loop_config, of which only these fields are used.
type loopConfig struct {
	fd, blockSize                              uint32
	device, inode, rdevice, offset, sizelimit  uint64
	number, encryptType, encryptKeySize, flags uint32
	fileName, cryptName                        [64]byte
	encryptKey                                 [32]byte
	init                                       [2]uint64
	reserved                                   [8]uint64
}

// attachLoop attaches the file to a loop device, which detaches itself when its last user is gone: this descriptor, then the mount.
func attachLoop(file string) (device *os.File, number int, err error) {
	backing, err := os.OpenFile(file, os.O_RDWR|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, 0, fmt.Errorf("open disk: %w", err)
	}
	defer backing.Close()
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return nil, 0, fmt.Errorf("open loop control: %w", err)
	}
	defer control.Close()
	deadline := time.Now().Add(5 * time.Second)
	for {
		n, _, errno := syscall.Syscall(syscall.SYS_IOCTL, control.Fd(), loopGetFree, 0)
		if errno != 0 {
			return nil, 0, fmt.Errorf("find a free loop device: %w", errno)
		}
		device, err := openLoop(int(n))
		if err != nil {
			return nil, 0, err
		}
		config := loopConfig{fd: uint32(backing.Fd()), flags: loopAutoclear}
		copy(config.fileName[:63], file)
		_, _, errno = syscall.Syscall(syscall.SYS_IOCTL, device.Fd(), loopConfigure, uintptr(unsafe.Pointer(&config)))
		if errno == 0 {
			return device, int(n), nil
		}
		device.Close()
		// Finding and configuring a device are two steps: another launcher may have taken it in between.
		if errno != syscall.EBUSY || time.Now().After(deadline) {
			return nil, 0, fmt.Errorf("attach disk to loop%d: %w", n, errno)
		}
	}
}

func openLoop(n int) (*os.File, error) {
	path := fmt.Sprintf("/dev/loop%d", n)
	device, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) {
		// Where /dev is no devtmpfs (inside a container), the node has to be made.
		if err := syscall.Mknod(path, syscall.S_IFBLK|0o600, 7<<8|n&0xff|(n&^0xff)<<12); err != nil && !errors.Is(err, os.ErrExist) {
			return nil, fmt.Errorf("make %s: %w", path, err)
		}
		device, err = os.OpenFile(path, os.O_RDWR, 0)
	}
	if err != nil {
		return nil, fmt.Errorf("open loop device: %w", err)
	}
	return device, nil
}

// AwaitReleased waits until no loop device is attached to the file. Two mounts of one disk at the same time would destroy it.
func AwaitReleased(file string, deadline time.Time) error {
	for {
		paths, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
		if err != nil {
			return fmt.Errorf("list loop devices: %w", err)
		}
		busy := false
		for _, path := range paths {
			data, err := os.ReadFile(path)
			if err == nil && strings.TrimSuffix(strings.TrimSpace(string(data)), " (deleted)") == file {
				busy = true
			}
		}
		if !busy {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("disk %s is still attached to a loop device", file)
		}
		time.Sleep(time.Millisecond)
	}
}
