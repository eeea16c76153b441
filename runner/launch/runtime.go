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
	"unsafe"
)

const bootLogBytes = 64 << 10

// An rlimit is one of the kernel's limits of a process.
type rlimit struct {
	Resource int    `json:"resource"`
	Limit    uint64 `json:"limit"`
}

// takeOn sets limits of this process, which the runtime and the sandbox inherit. A runtime could not set them from outside without
// more rights: the sandbox's user namespace does not belong to root.
func takeOn(limits []rlimit) error {
	for _, l := range limits {
		if err := syscall.Setrlimit(l.Resource, &syscall.Rlimit{Cur: l.Limit, Max: l.Limit}); err != nil {
			return fmt.Errorf("set limit %d to %d: %w", l.Resource, l.Limit, err)
		}
	}
	return nil
}

// runRuntime has the OCI runtime make the sandbox and returns its first process.
func runRuntime(j *startJob, bundle string, inherited []*os.File) (int, error) {
	output, err := boundedFile(bootLogBytes)
	if err != nil {
		return 0, err
	}
	defer output.Close()
	pidFile := filepath.Join(j.Folder, "pid")
	argv := append(append([]string{}, j.Runtime...), "run", "--detach", "--bundle", bundle, "--pid-file", pidFile,
		"--preserve-fds", strconv.Itoa(len(inherited)), j.ID)
	cmd := &exec.Cmd{
		Path: argv[0], Args: argv, Dir: "/", Env: []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"},
		Stdout: output, Stderr: output, ExtraFiles: inherited,
		// A launcher that is killed takes the runtime along, and the half-made sandbox ends when it loses the runtime.
		SysProcAttr: &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL},
	}
	runErr := cmd.Run()
	said := readText(output)
	if err := os.WriteFile(filepath.Join(j.Folder, "logs", "boot.log"), []byte(said), 0o600); err != nil {
		return 0, fmt.Errorf("write boot log: %w", err)
	}
	if runErr != nil {
		return 0, fmt.Errorf("%s: %w: %s", filepath.Base(argv[0]), runErr, lastLine(said))
	}
	data, err := os.ReadFile(pidFile)
	if err != nil {
		return 0, fmt.Errorf("read pid file: %w", err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil || pid <= 1 {
		return 0, errors.New("the runtime wrote no pid")
	}
	return pid, nil
}

// deleteMachine has the runtime forget the machine, ending it if it runs. The runtime keeps its records by id below --root.
func deleteMachine(runtime []string, id string) error {
	argv := append(append([]string{}, runtime...), "delete", "--force", id)
	cmd := &exec.Cmd{Path: argv[0], Args: argv, Dir: "/", Env: []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}}
	said, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s delete: %w: %s", filepath.Base(argv[0]), err, lastLine(string(said)))
	}
	return nil
}

// boundedFile makes a file in memory that can hold so much and never more.
//
// SECURITY: the sandbox inherits it as stdout and stderr and may write to it for ever; a file on disk would grow outside
// the session's quota, and a pipe would keep whoever reads it waiting.
func boundedFile(size int64) (*os.File, error) {
	name := []byte("boot-log\x00")
	fd, _, errno := syscall.Syscall(sysMemfdCreate, uintptr(unsafe.Pointer(&name[0])), 3 /* CLOEXEC, ALLOW_SEALING */, 0)
	if errno != 0 {
		return nil, fmt.Errorf("make boot log: %w", errno)
	}
	file := os.NewFile(fd, "boot-log")
	if err := file.Truncate(size); err != nil {
		file.Close()
		return nil, fmt.Errorf("size boot log: %w", err)
	}
	const addSeals, sealSealShrinkGrow = 1033, 1 | 2 | 4
	if _, _, errno := syscall.Syscall(syscall.SYS_FCNTL, fd, addSeals, sealSealShrinkGrow); errno != 0 {
		file.Close()
		return nil, fmt.Errorf("seal boot log: %w", errno)
	}
	return file, nil
}

func readText(file *os.File) string {
	buffer := make([]byte, bootLogBytes)
	n, _ := file.ReadAt(buffer, 0)
	return strings.TrimRight(string(buffer[:n]), "\x00")
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	line := lines[len(lines)-1]
	if len(line) > 500 {
		line = line[:500]
	}
	return line
}
