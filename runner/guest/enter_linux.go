package guest

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"unsafe"
)

const (
	prSetNoNewPrivs   = 38
	seccompSetFilter  = 1
	seccompEveryone   = 1 // every thread of the process
	runnerPath        = "/.sandglass/runner"
	processors        = "sys/devices/system/cpu"
	quietMount        = syscall.MS_NOSUID | syscall.MS_NODEV
	quietNoexec       = quietMount | syscall.MS_NOEXEC
	terminalGroup     = 5
	sandboxID         = 1000
	maxBPFInstruction = 4096
	maxReportBytes    = 4096
	served            = "served"
)

// Enter waits for the orders of the session and shuts this process in accordingly. It gives the runner's own configuration.
func Enter() ([]byte, error) {
	orders := os.NewFile(ordersFD, "orders")
	defer orders.Close()
	cfg := &config{}
	if err := json.NewDecoder(orders).Decode(cfg); err != nil {
		return nil, fmt.Errorf("read orders: %w", err)
	}
	if err := os.WriteFile(workGroup+"/cgroup.procs", []byte("0"), 0); err != nil {
		return nil, fmt.Errorf("join cgroup: %w", err)
	}
	if err := syscall.Sethostname([]byte(cfg.Hostname)); err != nil {
		return nil, fmt.Errorf("set host name: %w", err)
	}
	if err := furnish(cfg); err != nil {
		return nil, err
	}
	if err := becomeRoot(); err != nil {
		return nil, err
	}
	for _, l := range cfg.Rlimits {
		if err := syscall.Setrlimit(l.Resource, &syscall.Rlimit{Cur: l.Limit, Max: l.Limit}); err != nil {
			return nil, fmt.Errorf("set limit %d: %w", l.Resource, err)
		}
	}
	return cfg.Runner, filter(cfg.Seccomp)
}

// Report tells the machine's first process that the runner serves, or why it does not.
func Report(err error) {
	pipe := os.NewFile(reportFD, "report")
	defer pipe.Close()
	if err != nil {
		fmt.Fprint(pipe, err)
		return
	}
	fmt.Fprint(pipe, served)
}

// furnish mounts everything that the session sees beside its image.
func furnish(cfg *config) error {
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("keep mounts private: %w", err)
	}
	if err := mountRoot(cfg); err != nil {
		return err
	}
	disk := func(path, target string, readonly bool) step {
		return step{mount{filepath.Join(diskDir, path), target, "", syscall.MS_BIND, ""}, readonly}
	}
	steps := []step{
		{mount{"proc", "/proc", "proc", quietNoexec, ""}, false},
		{mount{"tmpfs", "/sys", "tmpfs", quietNoexec, "size=1m,mode=755"}, false},
		{mount{"tmpfs", "/dev", "tmpfs", syscall.MS_NOSUID | syscall.MS_STRICTATIME, "size=64k,mode=755"}, false},
		{mount{"tmpfs", "/tmp", "tmpfs", quietMount, fmt.Sprintf("size=%dm,mode=1777", cfg.TmpMb)}, false},
		{mount{"tmpfs", "/run", "tmpfs", quietMount, "size=16m,mode=755"}, false},
		{mount{runnerDir, "/.sandglass", "", syscall.MS_BIND, ""}, true},
		disk("workspace", "/workspace", false),
		disk("home", "/home/sandbox", false),
	}
	for name := range cfg.Files {
		steps = append(steps, disk("etc/"+name, "/etc/"+name, cfg.ReadonlyRoot))
	}
	for _, s := range steps {
		if err := s.do(); err != nil {
			return err
		}
	}
	if err := furnishDev(cfg.Terminals); err != nil {
		return err
	}
	if err := furnishSys(); err != nil {
		return err
	}
	for _, s := range cfg.Shares {
		if err := mountShare(s); err != nil {
			return err
		}
	}
	return hide(cfg)
}

// A step is a mount inside the new root.
type step struct {
	mount
	readonly bool
}

func (s step) do() error {
	target, err := inRoot(s.target)
	if err != nil {
		return err
	}
	defer target.Close()
	path := fdPath(target)
	if err := syscall.Mount(s.source, path, s.kind, s.flags, s.options); err != nil {
		return fmt.Errorf("mount %s: %w", s.target, err)
	}
	if !s.readonly {
		return nil
	}
	// The descriptor names what is below the mount; the path, looked up again, the mount itself.
	mounted, err := inRoot(s.target)
	if err != nil {
		return err
	}
	defer mounted.Close()
	if err := syscall.Mount("", fdPath(mounted), "", syscall.MS_REMOUNT|syscall.MS_BIND|syscall.MS_RDONLY|quietMount, ""); err != nil {
		return fmt.Errorf("make %s read-only: %w", s.target, err)
	}
	return nil
}

func furnishDev(terminals int) error {
	dev := rootDir + "/dev"
	for _, d := range []struct {
		name         string
		major, minor int
	}{{"null", 1, 3}, {"zero", 1, 5}, {"full", 1, 7}, {"random", 1, 8}, {"urandom", 1, 9}, {"tty", 5, 0}} {
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

// furnishSys shows the processors and nothing else: libraries count them there.
func furnishSys() error {
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

func mountShare(s share) error {
	target, err := inRoot(s.Target)
	if err != nil {
		return err
	}
	defer target.Close()
	flags, options := uintptr(quietMount), ""
	if s.Readonly {
		flags |= syscall.MS_RDONLY
	}
	if s.Type == "9p" {
		options = "trans=virtio,version=9p2000.L,msize=131072"
	}
	if err := syscall.Mount(s.Tag, fdPath(target), s.Type, flags, options); err != nil {
		return fmt.Errorf("mount share %s: %w", s.Target, err)
	}
	return nil
}

// hide covers what a program could learn of the machine or change in its kernel.
func hide(cfg *config) error {
	for _, path := range cfg.Masked {
		path = filepath.Join(rootDir, path)
		info, err := os.Lstat(path)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err == nil && info.IsDir() {
			err = syscall.Mount("tmpfs", path, "tmpfs", quietNoexec|syscall.MS_RDONLY, "size=0")
		} else if err == nil {
			err = syscall.Mount("/dev/null", path, "", syscall.MS_BIND, "")
		}
		if err != nil {
			return fmt.Errorf("mask %s: %w", path, err)
		}
	}
	for _, path := range cfg.ReadOnly {
		path = filepath.Join(rootDir, path)
		if _, err := os.Lstat(path); errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err := syscall.Mount(path, path, "", syscall.MS_BIND|syscall.MS_REC, ""); err != nil {
			return fmt.Errorf("hold %s: %w", path, err)
		}
		if err := remountReadonly(path, quietNoexec); err != nil {
			return err
		}
	}
	return nil
}

func remountReadonly(path string, flags uintptr) error {
	if err := syscall.Mount("", path, "", syscall.MS_REMOUNT|syscall.MS_BIND|syscall.MS_RDONLY|flags, ""); err != nil {
		return fmt.Errorf("make %s read-only: %w", path, err)
	}
	return nil
}

// becomeRoot makes rootDir the root of this mount namespace. A root that the kernel unpacked cannot be pivoted away from, only covered.
func becomeRoot() error {
	if err := os.Chdir(rootDir); err != nil {
		return fmt.Errorf("enter root: %w", err)
	}
	if err := syscall.Mount(".", "/", "", syscall.MS_MOVE, ""); err != nil {
		return fmt.Errorf("move root: %w", err)
	}
	if err := syscall.Chroot("."); err != nil {
		return fmt.Errorf("change root: %w", err)
	}
	return os.Chdir("/")
}

type bpfProgram struct {
	length uint16
	filter *byte
}

// filter forbids system calls from here on, in every thread of this process and whatever it starts.
func filter(program []byte) error {
	if _, _, errno := syscall.AllThreadsSyscall6(syscall.SYS_PRCTL, prSetNoNewPrivs, 1, 0, 0, 0, 0); errno != 0 {
		return fmt.Errorf("set no-new-privileges: %w", errno)
	}
	if len(program) == 0 {
		return nil
	}
	if len(program)%8 != 0 || len(program)/8 > maxBPFInstruction {
		return fmt.Errorf("a system call filter of %d bytes", len(program))
	}
	bpf := bpfProgram{uint16(len(program) / 8), &program[0]}
	if _, _, errno := syscall.Syscall(sysSeccomp, seccompSetFilter, seccompEveryone, uintptr(unsafe.Pointer(&bpf))); errno != 0 {
		return fmt.Errorf("filter system calls: %w", errno)
	}
	return nil
}
