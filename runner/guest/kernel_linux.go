package guest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
	"unsafe"
)

const (
	rndAddEntropy = 0x40085203
	rndReseed     = 0x5207
)

// SECURITY: switched off for good once the machine has what it needs. Not every kernel has every one.
var kernelSettings = map[string]string{
	"kernel/modules_disabled":          "1",
	"kernel/kexec_load_disabled":       "1",
	"kernel/sysrq":                     "0",
	"kernel/kptr_restrict":             "2",
	"kernel/dmesg_restrict":            "1",
	"kernel/unprivileged_bpf_disabled": "2",
	"kernel/perf_event_paranoid":       "3",
	"kernel/io_uring_disabled":         "2",
	"kernel/core_pattern":              "/dev/null",
	// As in a container: what is asked for is given, and the limit counts what is used.
	"vm/overcommit_memory":                "1",
	"vm/unprivileged_userfaultfd":         "0",
	"net/ipv4/ip_unprivileged_port_start": "0",
}

func lockKernel() error {
	for name, value := range kernelSettings {
		err := os.WriteFile("/proc/sys/"+name, []byte(value), 0)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("set %s: %w", name, err)
		}
	}
	return nil
}

// stirEntropy makes the kernel's random numbers depend on what the host sent, at once and for every reader.
//
// SECURITY: machines that start from one snapshot would give the same numbers, and with them the same keys.
func stirEntropy(fresh []byte) error {
	if len(fresh) < 32 {
		return fmt.Errorf("stir entropy: %d bytes are too few", len(fresh))
	}
	device, err := os.OpenFile("/dev/urandom", os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("stir entropy: %w", err)
	}
	defer device.Close()
	// struct rand_pool_info: bits, bytes, the bytes.
	info := make([]byte, 8+len(fresh))
	binary.LittleEndian.PutUint32(info, uint32(8*len(fresh)))
	binary.LittleEndian.PutUint32(info[4:], uint32(len(fresh)))
	copy(info[8:], fresh)
	if err := ioctl(device.Fd(), rndAddEntropy, uintptr(unsafe.Pointer(&info[0]))); err != nil {
		return fmt.Errorf("add entropy: %w", err)
	}
	if err := ioctl(device.Fd(), rndReseed, 0); err != nil {
		return fmt.Errorf("use entropy: %w", err)
	}
	return nil
}

func ioctl(fd, request, argument uintptr) error {
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, fd, request, argument); errno != 0 {
		return errno
	}
	return nil
}

func setClock(ms int64) error {
	now := syscall.NsecToTimeval(ms * int64(time.Millisecond))
	if err := syscall.Settimeofday(&now); err != nil {
		return fmt.Errorf("set clock: %w", err)
	}
	return nil
}
