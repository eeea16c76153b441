package guest

import (
	"encoding/json"
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
	maxBPFInstruction = 4096
	maxReportBytes    = 4096

	// What the process that becomes the runner reports, in this order; an error in place of the last.
	waiting = "waiting\n"
	served  = "served"
)

// Enter builds the root of a session, waits for the session, and shuts this process in. It gives the runner's own configuration.
// Arguments are those of the machine's first process.
func Enter(args []string) ([]byte, error) {
	f, err := readFacts(args)
	if err != nil {
		return nil, err
	}
	s, err := readSettings()
	if err != nil {
		return nil, err
	}
	// The kernel has it from the file, which is named otherwise.
	if err := os.WriteFile("/proc/self/comm", []byte(filepath.Base(runnerPath)), 0); err != nil {
		return nil, fmt.Errorf("take the runner's name: %w", err)
	}
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return nil, fmt.Errorf("keep mounts private: %w", err)
	}
	// Most sessions have a read-only root, which is the same for all of them.
	if err := buildRoot(f, s, false); err != nil {
		return nil, err
	}
	disk, err := findDisk(diskSerial)
	if err != nil {
		return nil, err
	}
	if f.readAhead {
		readAhead()
	}
	cfg, err := awaitOrders()
	if err != nil {
		return nil, err
	}
	return cfg.Runner, cfg.enter(f, s, disk)
}

func awaitOrders() (*config, error) {
	orders := os.NewFile(ordersFD, "orders")
	defer orders.Close()
	if _, err := syscall.Write(reportFD, []byte(waiting)); err != nil {
		return nil, fmt.Errorf("report: %w", err)
	}
	cfg := &config{}
	decoder := json.NewDecoder(orders)
	for _, order := range []any{cfg, &cfg.resolver} {
		if err := decoder.Decode(order); err != nil {
			return nil, fmt.Errorf("read orders: %w", err)
		}
	}
	return cfg, nil
}

func (cfg *config) enter(f *facts, s *settings, disk string) error {
	if err := os.WriteFile(workGroup+"/cgroup.procs", []byte("0"), 0); err != nil {
		return fmt.Errorf("join cgroup: %w", err)
	}
	if err := syscall.Sethostname([]byte(cfg.Hostname)); err != nil {
		return fmt.Errorf("set host name: %w", err)
	}
	if err := (mount{disk, diskDir, "ext4", quietMount | syscall.MS_NOATIME, ""}).do(); err != nil {
		return err
	}
	if err := layOutDisk(); err != nil {
		return err
	}
	if err := writeNames(cfg.Names, namesDir); err != nil {
		return err
	}
	missing, err := missingTargets(cfg.Shares)
	if err != nil {
		return err
	}
	if !cfg.ReadonlyRoot || len(missing) > 0 {
		if err := rebuildRoot(f, s, cfg, missing); err != nil {
			return err
		}
	}
	for path, target := range map[string]string{"workspace": "/workspace", "home": "/home/sandbox"} {
		if err := (step{mount{filepath.Join(diskDir, path), target, "", syscall.MS_BIND, ""}, false}).do(); err != nil {
			return err
		}
	}
	if err := showResolver(cfg); err != nil {
		return err
	}
	if err := mountShares(cfg.Shares); err != nil {
		return err
	}
	if err := becomeRoot(); err != nil {
		return err
	}
	for _, l := range cfg.Rlimits {
		if err := syscall.Setrlimit(l.Resource, &syscall.Rlimit{Cur: l.Limit, Max: l.Limit}); err != nil {
			return fmt.Errorf("set limit %d: %w", l.Resource, err)
		}
	}
	return filter(s.Seccomp)
}

// showResolver has names asked for on the network that the machine is on.
func showResolver(cfg *config) error {
	if !cfg.Bridged {
		return nil
	}
	path := filepath.Join(namesDir, resolverFile)
	if err := os.WriteFile(path, []byte(cfg.resolver), 0o644); err != nil {
		return fmt.Errorf("write %s: %w", resolverFile, err)
	}
	return step{mount{path, "/etc/" + resolverFile, "", syscall.MS_BIND, ""}, true}.do()
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

type bpfProgram struct {
	length uint16
	filter *byte
}

// filter forbids system calls from here on, in every thread of this process and whatever it starts.
func filter(program []byte) error {
	if _, _, errno := syscall.AllThreadsSyscall6(syscall.SYS_PRCTL, prSetNoNewPrivs, 1, 0, 0, 0, 0); errno != 0 {
		return fmt.Errorf("set no-new-privileges: %w", errno)
	}
	if len(program) == 0 || len(program)%8 != 0 || len(program)/8 > maxBPFInstruction {
		return fmt.Errorf("a system call filter of %d bytes", len(program))
	}
	bpf := bpfProgram{uint16(len(program) / 8), &program[0]}
	if _, _, errno := syscall.Syscall(sysSeccomp, seccompSetFilter, seccompEveryone, uintptr(unsafe.Pointer(&bpf))); errno != 0 {
		return fmt.Errorf("filter system calls: %w", errno)
	}
	return nil
}
