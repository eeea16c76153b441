package oci

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"sandglass/runner/internal/launch/mount"
	"sandglass/runner/internal/launch/socket"
	"sandglass/runner/internal/rlimit"
)

// A runtimePlan says how to start the OCI runtime. The runtime's configuration comes later.
type runtimePlan struct {
	// Argv is the program and its options, up to the sub-command.
	Argv []string `json:"argv"`
	// ID is the runtime's name of the machine.
	ID string `json:"id"`
	// Folder holds the bundle and the pid file.
	Folder string `json:"folder"`
	// Private: a tmpfs is mounted over the folder in this launcher's mount namespace, and ends with this process.
	Private bool `json:"private"`
	// Records is the folder in which the runtime keeps its records, one per id.
	Records string `json:"records"`
	// HideMounts are covered with an empty filesystem, in this launcher's mount namespace only.
	HideMounts []string `json:"hide_mounts"`
	// Protected mounts are read-only while the runtime runs.
	Protected []string `json:"protected"`
	OpenFiles uint64   `json:"open_files"`
	// Verify: the machine is checked before it is used.
	Verify bool `json:"verify"`
	// OwnKernel: the runtime starts a kernel that runs the sandbox's processes (gVisor). It passes on only the standard descriptors, makes its
	// own user namespace, and isolates processes and cgroups by itself.
	OwnKernel bool `json:"own_kernel"`
}

// An ociRuntime is the runtime's process. It may be started before its configuration is known: config.json of its bundle is then a named pipe, on
// which it waits. A runtime with a kernel of its own is started only with its configuration.
type ociRuntime struct {
	plan   *runtimePlan
	cmd    *exec.Cmd
	pipe   mount.Handle
	output *os.File
	// The machine's first process inherits its two listening sockets, unless it has to make them, and the reading end of a pipe with its
	// configuration. The socket for egress is passed to every machine, because the runtime may be started before it is known whether the
	// machine has egress. It is bound for those that have, and closed by the other runners.
	listener, egressListener   *os.File
	configReader, configWriter *os.File
}

// start starts the runtime, which then waits for its configuration.
func (p *runtimePlan) start() (*ociRuntime, error) {
	if err := mount.Cover(p.HideMounts); err != nil {
		return nil, err
	}
	if err := mount.SetReadonly(p.Protected, true); err != nil {
		return nil, err
	}
	if err := p.makeFolder(); err != nil {
		return nil, err
	}
	r := &ociRuntime{plan: p}
	if err := r.open(); err != nil {
		return nil, err
	}
	if err := rlimit.Set([]rlimit.Limit{{Resource: syscall.RLIMIT_NOFILE, Limit: p.OpenFiles}}); err != nil {
		return nil, err
	}
	argv := append(append([]string{}, p.Argv...), "--root", p.Records, "run", "--detach", "--bundle", p.bundle(),
		"--pid-file", p.pidFile())
	r.cmd = &exec.Cmd{
		Path: argv[0], Dir: "/", Env: []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}, Stdout: r.output, Stderr: r.output,
		// The runtime is killed with the launcher, and an unfinished sandbox ends without its runtime.
		SysProcAttr: &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL},
	}
	if p.OwnKernel {
		r.cmd.Stdin = r.configReader
		r.cmd.Args = append(argv, p.ID)
		return r, nil
	}
	r.cmd.ExtraFiles = []*os.File{r.listener, r.configReader, r.egressListener}
	r.cmd.Args = append(argv, "--preserve-fds", strconv.Itoa(len(r.cmd.ExtraFiles)), p.ID)
	return r, r.begin()
}

func (r *ociRuntime) begin() error {
	if err := r.cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", filepath.Base(r.cmd.Path), err)
	}
	return nil
}

func (p *runtimePlan) bundle() string  { return filepath.Join(p.Folder, "bundle") }
func (p *runtimePlan) pidFile() string { return filepath.Join(p.Folder, "pid") }

func (p *runtimePlan) makeFolder() error {
	if p.Private {
		if err := syscall.Mount("tmpfs", p.Folder, "tmpfs", syscall.MS_NOSUID|syscall.MS_NODEV|syscall.MS_NOEXEC, "size=4m,mode=700"); err != nil {
			return fmt.Errorf("mount the runtime folder: %w", err)
		}
	}
	if err := os.Mkdir(p.bundle(), 0o700); err != nil && !os.IsExist(err) {
		return fmt.Errorf("make bundle: %w", err)
	}
	return nil
}

// open makes the files that the runtime inherits.
func (r *ociRuntime) open() error {
	pipe := filepath.Join(r.plan.bundle(), "config.json")
	if err := os.Remove(pipe); err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("remove old bundle: %w", err)
	}
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		return fmt.Errorf("make bundle: %w", err)
	}
	var err error
	if r.pipe, err = mount.Open(pipe); err != nil {
		return err
	}
	if r.output, err = boundedFile(bootLogBytes); err != nil {
		return err
	}
	if r.configReader, r.configWriter, err = os.Pipe(); err != nil {
		return fmt.Errorf("make pipe: %w", err)
	}
	if r.plan.OwnKernel {
		return nil
	}
	if r.listener, err = socket.New(); err != nil {
		return err
	}
	r.egressListener, err = socket.New()
	return err
}

// listen binds the sockets that the runner inherits. egress is nil for a machine without it.
func (r *ociRuntime) listen(path string, egress *socket.Owned) error {
	if r.listener == nil {
		return nil
	}
	if err := socket.ListenAt(r.listener, path); err != nil || egress == nil {
		return err
	}
	return egress.ListenWith(r.egressListener)
}

// stop ends a runtime that is not needed.
func (r *ociRuntime) stop() {
	_ = r.cmd.Process.Kill()
	_ = r.cmd.Wait()
	_ = mount.SetReadonly(r.plan.Protected, false)
}

// configureRunner writes the runner's configuration to its pipe. SECURITY: it holds secrets, so it is never in a file, in argv or in the
// environment.
func (r *ociRuntime) configureRunner(data []byte) error {
	defer r.configWriter.Close()
	// Nobody reads the pipe yet: a write that does not fit into its buffer would block for ever.
	if len(data) > 60<<10 {
		return fmt.Errorf("the runner's configuration is too long: %d bytes", len(data))
	}
	if _, err := r.configWriter.Write(append(data, '\n')); err != nil {
		return fmt.Errorf("fill pipe: %w", err)
	}
	return nil
}

// run has the runtime make the sandbox and returns the pid of its first process.
func (r *ociRuntime) run(bundle []byte, limits []rlimit.Limit, log string) (int, error) {
	if err := r.configure(bundle, limits); err != nil {
		return 0, err
	}
	runErr := r.cmd.Wait()
	said := readText(r.output)
	if err := os.WriteFile(log, []byte(said), 0o600); err != nil {
		return 0, fmt.Errorf("write boot log: %w", err)
	}
	if runErr != nil {
		return 0, fmt.Errorf("%s: %w: %s", filepath.Base(r.cmd.Args[0]), runErr, summary(said))
	}
	if err := mount.SetReadonly(r.plan.Protected, false); err != nil {
		return 0, err
	}
	data, err := os.ReadFile(r.plan.pidFile())
	if err != nil {
		return 0, fmt.Errorf("read pid file: %w", err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil || pid <= 1 {
		return 0, errors.New("the pid file of the runtime is invalid")
	}
	return pid, nil
}

// configure sets the runtime's limits and writes its config.json. A runtime that runs already reads the pipe; if it opens config.json later
// or a second time, it reads the file that has replaced the pipe.
func (r *ociRuntime) configure(bundle []byte, limits []rlimit.Limit) error {
	if r.cmd.Process == nil {
		if err := r.writeBundle(bundle); err != nil {
			return err
		}
		if err := rlimit.Set(limits); err != nil {
			return err
		}
		return r.begin()
	}
	for _, l := range limits {
		if err := rlimit.SetProcess(r.cmd.Process.Pid, l); err != nil {
			return err
		}
	}
	if err := r.writeBundle(bundle); err != nil {
		return err
	}
	// Opening blocks until the runtime opens its end, for ever if it has opened the file. A runtime that reads only a part reports an error.
	go func() {
		if pipe, err := os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", r.pipe.FD), os.O_WRONLY, 0); err == nil {
			_, _ = pipe.Write(bundle)
			pipe.Close()
		}
	}()
	return nil
}

// writeBundle replaces the pipe by a file.
func (r *ociRuntime) writeBundle(bundle []byte) error {
	file := filepath.Join(r.plan.bundle(), "config.json")
	if err := os.WriteFile(file+".new", bundle, 0o600); err != nil {
		return fmt.Errorf("write bundle: %w", err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		return fmt.Errorf("write bundle: %w", err)
	}
	return nil
}

// filter returns the seccomp program that the runtime compiled, from crun's records or from the kernel; nil if neither has it.
func (r *ociRuntime) filter(pid int) []byte {
	program, err := os.ReadFile(filepath.Join(r.plan.Records, r.plan.ID, "seccomp.bpf"))
	if err != nil {
		program, err = filterOf(pid)
	}
	if err != nil {
		return nil
	}
	return program
}

// deleteMachine has the runtime delete its records of the machine. A machine that runs is ended.
func deleteMachine(runtime []string, id string) error {
	argv := append(append([]string{}, runtime...), "delete", "--force", id)
	cmd := &exec.Cmd{Path: argv[0], Args: argv, Dir: "/", Env: []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}}
	said, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s delete: %w: %s", filepath.Base(argv[0]), err, summary(string(said)))
	}
	return nil
}
