package guest

import (
	"encoding/binary"
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
	rndAddEntropy = 0x40085203
	rndReseed     = 0x5207
)

// SECURITY: these settings hold for the life of the machine. A kernel may lack some of them.
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
	// As in a container: allocations succeed, and the memory limit counts pages that are used.
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

// addEntropy reseeds the kernel's random number generator with bytes from the host, at once and for every reader.
//
// SECURITY: machines that start from one snapshot would otherwise produce the same random numbers, and the same keys.
func addEntropy(fresh []byte) error {
	if len(fresh) < 32 {
		return fmt.Errorf("add entropy: %d bytes are too few", len(fresh))
	}
	device, err := os.OpenFile("/dev/urandom", os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("add entropy: %w", err)
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
		return fmt.Errorf("reseed: %w", err)
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

const modulesDir = "/modules"

// loadModules loads the base set of drivers and the sets that the kernel's command line names, in the order of their lists. It removes the
// files then, because an initramfs stays in memory.
func (f *bootOptions) loadModules() error {
	files, err := moduleFiles(modulesDir, f.load)
	if err != nil {
		return err
	}
	for _, file := range files {
		if err := loadModule(file); err != nil {
			return fmt.Errorf("load module %s: %w", filepath.Base(file), err)
		}
	}
	return os.RemoveAll(modulesDir)
}

// moduleFiles are the files of the base set and of further sets, in the order in which they have to be loaded.
func moduleFiles(dir string, sets []string) ([]string, error) {
	var files []string
	for _, set := range append([]string{"base"}, sets...) {
		list, err := os.ReadFile(filepath.Join(dir, filepath.Base(set)+".list"))
		if err != nil {
			return nil, fmt.Errorf("read module list: %w", err)
		}
		for _, name := range strings.Fields(string(list)) {
			files = append(files, filepath.Join(dir, name+".ko"))
		}
	}
	return files, nil
}

func loadModule(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	parameters := [1]byte{0}
	_, _, errno := syscall.Syscall(sysFinitModule, file.Fd(), uintptr(unsafe.Pointer(&parameters)), 0)
	if errno != 0 && !errors.Is(errno, syscall.EEXIST) {
		return errno
	}
	return nil
}
