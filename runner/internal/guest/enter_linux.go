package guest

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"unsafe"

	"sandglass/runner/internal/rlimit"
)

const (
	prSetNoNewPrivs   = 38
	seccompSetFilter  = 1
	seccompEveryone   = 1 // every thread of the process
	runnerPath        = "/.sandglass/runner"
	maxBPFInstruction = 4096
	maxReportBytes    = 4096

	// What the process that becomes the runner reports to its parent, in this order. An error replaces the second.
	reportWaiting = "waiting\n"
	reportServing = "serving"
)

// Entered is what the runner needs after Enter.
type Entered struct {
	Runner        []byte // the runner's configuration
	EgressCarrier string // the port for the egress process, as a carrier of the runner; empty if there is none
}

// Enter builds the root filesystem, waits for the configuration of the session, and confines this process to that root. args are the
// arguments of the machine's first process.
func Enter(args []string) (*Entered, error) {
	f, err := parseBootOptions(args)
	if err != nil {
		return nil, err
	}
	s, err := readSettings()
	if err != nil {
		return nil, err
	}
	// The kernel takes the name of a process from the file that it executes, which is /init here.
	if err := os.WriteFile("/proc/self/comm", []byte(filepath.Base(runnerPath)), 0); err != nil {
		return nil, fmt.Errorf("set the process name: %w", err)
	}
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return nil, fmt.Errorf("make mounts private: %w", err)
	}
	// Most sessions have a read-only root, which needs nothing from the configuration.
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
	cfg, err := awaitConfig()
	if err != nil {
		return nil, err
	}
	carrier, err := cfg.openEgressPort()
	if err != nil {
		return nil, err
	}
	return &Entered{cfg.Runner, carrier}, cfg.enter(f, s, disk)
}

// openEgressPort opens the port for the egress process, if the session has egress and the machine has the port. The devices are out of
// reach after enter.
func (cfg *config) openEgressPort() (carrier string, err error) {
	var runner struct {
		Egress *json.RawMessage `json:"egress"`
	}
	if err := json.Unmarshal(cfg.Runner, &runner); err != nil {
		return "", fmt.Errorf("parse the runner's configuration: %w", err)
	}
	if runner.Egress == nil {
		return "", nil
	}
	path, err := findDevice(portNames, egressPort, egressDeadline)
	if err != nil {
		return "", nil // a machine without the port; the egress process is reached through the daemon then
	}
	fd, err := syscall.Open(path, syscall.O_RDWR|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if err != nil {
		return "", fmt.Errorf("open port %s: %w", egressPort, err)
	}
	return fmt.Sprintf("fd:%d", fd), nil
}

// awaitConfig reads two documents from the parent: the configuration, which the parent has checked, and the content of resolv.conf.
func awaitConfig() (*config, error) {
	input := os.NewFile(configFD, "configuration")
	defer input.Close()
	if _, err := syscall.Write(reportFD, []byte(reportWaiting)); err != nil {
		return nil, fmt.Errorf("report: %w", err)
	}
	cfg := &config{}
	decoder := json.NewDecoder(input)
	for _, document := range []any{cfg, &cfg.resolver} {
		if err := decoder.Decode(document); err != nil {
			return nil, fmt.Errorf("read configuration: %w", err)
		}
	}
	return cfg, nil
}

func (cfg *config) enter(f *bootOptions, s *settings, disk string) error {
	if err := os.WriteFile(workGroup+"/cgroup.procs", []byte("0"), 0); err != nil {
		return fmt.Errorf("join cgroup: %w", err)
	}
	if err := syscall.Sethostname([]byte(cfg.Hostname)); err != nil {
		return fmt.Errorf("set host name: %w", err)
	}
	if err := (mount{disk, diskDir, "ext4", quietMount | syscall.MS_NOATIME, ""}).do(); err != nil {
		return err
	}
	if err := makeDiskFolders(); err != nil {
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
	if err := mountResolver(cfg); err != nil {
		return err
	}
	if err := mountShares(cfg.Shares); err != nil {
		return err
	}
	if err := enterRoot(); err != nil {
		return err
	}
	if err := rlimit.Set(cfg.Rlimits); err != nil {
		return err
	}
	return filter(s.Seccomp)
}

// mountResolver gives a bridged machine the name servers of its network.
func mountResolver(cfg *config) error {
	if !cfg.Bridged {
		return nil
	}
	path := filepath.Join(namesDir, resolverFile)
	if err := os.WriteFile(path, []byte(cfg.resolver), 0o644); err != nil {
		return fmt.Errorf("write %s: %w", resolverFile, err)
	}
	return step{mount{path, "/etc/" + resolverFile, "", syscall.MS_BIND, ""}, true}.do()
}

// Report tells the machine's first process that the runner serves, or why it does not. The runner calls it once.
func Report(err error) {
	pipe := os.NewFile(reportFD, "report")
	defer pipe.Close()
	if err != nil {
		fmt.Fprint(pipe, err)
		return
	}
	fmt.Fprint(pipe, reportServing)
}

type bpfProgram struct {
	length uint16
	filter *byte
}

// filter installs the seccomp filter in every thread of this process. Processes that it starts inherit it.
func filter(program []byte) error {
	if _, _, errno := syscall.AllThreadsSyscall6(syscall.SYS_PRCTL, prSetNoNewPrivs, 1, 0, 0, 0, 0); errno != 0 {
		return fmt.Errorf("set no-new-privileges: %w", errno)
	}
	if len(program) == 0 || len(program)%8 != 0 || len(program)/8 > maxBPFInstruction {
		return fmt.Errorf("the seccomp filter has an invalid length of %d bytes", len(program))
	}
	bpf := bpfProgram{uint16(len(program) / 8), &program[0]}
	if _, _, errno := syscall.Syscall(sysSeccomp, seccompSetFilter, seccompEveryone, uintptr(unsafe.Pointer(&bpf))); errno != 0 {
		return fmt.Errorf("install seccomp filter: %w", errno)
	}
	return nil
}
