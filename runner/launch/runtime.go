package launch

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// A runtimePlan says how the OCI runtime is started. Its configuration comes later.
type runtimePlan struct {
	// Argv is the program and its options, up to the sub-command.
	Argv []string `json:"argv"`
	// ID is what the runtime knows the machine by.
	ID string `json:"id"`
	// Folder holds the bundle and the pid file.
	Folder string `json:"folder"`
	// Private: a filesystem of this launcher's own is mounted over the folder, and goes with this process.
	Private bool `json:"private"`
	// Records is where the runtime keeps what it knows, by id.
	Records string `json:"records"`
	// HideMounts get an empty filesystem mounted over them, in this launcher's namespace alone.
	HideMounts []string `json:"hide_mounts"`
	// Untouched are mounts that the runtime may change nothing of.
	Untouched []string `json:"untouched"`
	OpenFiles uint64   `json:"open_files"`
	// Verify: what the runtime made is looked at before it is used.
	Verify bool `json:"verify"`
	// OwnKernel: what the runtime starts is a kernel, with the sandbox's processes in it. It inherits no descriptors but the standard three, makes
	// its own user namespace, and keeps processes and cgroups apart by itself.
	OwnKernel bool `json:"own_kernel"`
}

// An ociRuntime is the runtime's process. Until it is configured it waits for somebody to write to config.json, which is a pipe; one that would not is
// not running yet.
type ociRuntime struct {
	plan   *runtimePlan
	cmd    *exec.Cmd
	pipe   place
	output *os.File
	// What the machine's first process inherits: its listening socket, unless it has to make one, and, in a pipe, its own configuration.
	listener       *os.File
	toldTo, toldBy *os.File
}

// start runs the runtime up to where it needs its configuration.
func (p *runtimePlan) start() (*ociRuntime, error) {
	if err := hideMounts(p.HideMounts); err != nil {
		return nil, err
	}
	if err := setReadonly(p.Untouched, true); err != nil {
		return nil, err
	}
	if err := p.makeFolder(); err != nil {
		return nil, err
	}
	r := &ociRuntime{plan: p}
	if err := r.open(); err != nil {
		return nil, err
	}
	if err := takeOn([]rlimit{{syscall.RLIMIT_NOFILE, p.OpenFiles}}); err != nil {
		return nil, err
	}
	argv := append(append([]string{}, p.Argv...), "--root", p.Records, "run", "--detach", "--bundle", p.bundle(),
		"--pid-file", p.pidFile())
	r.cmd = &exec.Cmd{
		Path: argv[0], Dir: "/", Env: []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}, Stdout: r.output, Stderr: r.output,
		// A launcher that is killed takes the runtime along, and the half-made sandbox ends when it loses the runtime.
		SysProcAttr: &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL},
	}
	if p.OwnKernel {
		r.cmd.Stdin = r.toldTo
		r.cmd.Args = append(argv, p.ID)
		return r, nil
	}
	r.cmd.ExtraFiles = []*os.File{r.listener, r.toldTo}
	r.cmd.Args = append(argv, "--preserve-fds", "2", p.ID)
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
			return fmt.Errorf("mount a folder for the runtime: %w", err)
		}
	}
	if err := os.Mkdir(p.bundle(), 0o700); err != nil && !os.IsExist(err) {
		return fmt.Errorf("make bundle: %w", err)
	}
	return nil
}

// open makes what the runtime inherits.
func (r *ociRuntime) open() error {
	pipe := filepath.Join(r.plan.bundle(), "config.json")
	if err := os.Remove(pipe); err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("remove old bundle: %w", err)
	}
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		return fmt.Errorf("make bundle: %w", err)
	}
	var err error
	if r.pipe, err = openPath(pipe); err != nil {
		return err
	}
	if r.output, err = boundedFile(bootLogBytes); err != nil {
		return err
	}
	if r.toldTo, r.toldBy, err = os.Pipe(); err != nil {
		return fmt.Errorf("make pipe: %w", err)
	}
	if r.plan.OwnKernel {
		return nil
	}
	r.listener, err = newSocket()
	return err
}

// stop is for a runtime that is not needed.
func (r *ociRuntime) stop() {
	_ = r.cmd.Process.Kill()
	_ = r.cmd.Wait()
	_ = setReadonly(r.plan.Untouched, false)
}

// tell hands data over to the machine's first process, to be read once: it is never in a file, in argv or in the environment.
func (r *ociRuntime) tell(data []byte) error {
	defer r.toldBy.Close()
	// Nobody reads yet: what does not fit in the pipe would wait for ever.
	if len(data) > 60<<10 {
		return fmt.Errorf("the runner's configuration is too long: %d bytes", len(data))
	}
	if _, err := r.toldBy.Write(append(data, '\n')); err != nil {
		return fmt.Errorf("fill pipe: %w", err)
	}
	return nil
}

// run lets the runtime make the sandbox and returns its first process.
func (r *ociRuntime) run(bundle []byte, limits []rlimit, log string) (int, error) {
	if err := r.configure(bundle, limits); err != nil {
		return 0, err
	}
	runErr := r.cmd.Wait()
	said := readText(r.output)
	if err := os.WriteFile(log, []byte(said), 0o600); err != nil {
		return 0, fmt.Errorf("write boot log: %w", err)
	}
	if runErr != nil {
		return 0, fmt.Errorf("%s: %w: %s", filepath.Base(r.cmd.Args[0]), runErr, clue(said))
	}
	if err := setReadonly(r.plan.Untouched, false); err != nil {
		return 0, err
	}
	data, err := os.ReadFile(r.plan.pidFile())
	if err != nil {
		return 0, fmt.Errorf("read pid file: %w", err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil || pid <= 1 {
		return 0, errors.New("the runtime wrote no pid")
	}
	return pid, nil
}

// configure gives the runtime its limits and its config.json. One that runs already has found the pipe and gets it there; or it looks later, or again,
// and finds a file.
func (r *ociRuntime) configure(bundle []byte, limits []rlimit) error {
	if r.cmd.Process == nil {
		if err := r.writeBundle(bundle); err != nil {
			return err
		}
		if err := takeOn(limits); err != nil {
			return err
		}
		return r.begin()
	}
	for _, l := range limits {
		if err := limitProcess(r.cmd.Process.Pid, l); err != nil {
			return err
		}
	}
	if err := r.writeBundle(bundle); err != nil {
		return err
	}
	// Opening waits for the runtime to open its end: for ever, if it found the file. Should it get less than all, it says so itself.
	go func() {
		if pipe, err := os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", r.pipe.fd), os.O_WRONLY, 0); err == nil {
			_, _ = pipe.Write(bundle)
			pipe.Close()
		}
	}()
	return nil
}

// writeBundle puts a file in the place of the pipe.
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

// filter gives what the runtime compiled the seccomp profile to, from crun's records or from the kernel; nil where it cannot be had.
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

// deleteMachine has the runtime forget the machine, ending it if it runs. The runtime keeps its records by id below --root.
func deleteMachine(runtime []string, id string) error {
	argv := append(append([]string{}, runtime...), "delete", "--force", id)
	cmd := &exec.Cmd{Path: argv[0], Args: argv, Dir: "/", Env: []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}}
	said, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s delete: %w: %s", filepath.Base(argv[0]), err, clue(string(said)))
	}
	return nil
}
