// Package microvm starts virtual machines for the microvm backend and supervises them.
//
// Each machine has a supervisor, one process of the launcher: it opens the files that QEMU may use, starts QEMU in a jail without rights,
// writes the boot log, and ends with QEMU. runner/LAUNCHER.md describes its job and its answer.
package microvm

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"sandglass/runner/internal/launch/cgroup"
	"sandglass/runner/internal/launch/pidfd"
	"sandglass/runner/internal/launch/socket"
	"sandglass/runner/internal/rlimit"
	"sandglass/runner/internal/strictjson"
	"sandglass/runner/internal/sys"
)

// A vmJob describes one virtual machine.
type vmJob struct {
	// Argv is QEMU's. It names files by descriptor: Files from 3 on, then Sockets, EgressSocket, the tap of Bridge, the Shares.
	Argv    []string `json:"argv"`
	Files   []file   `json:"files"`
	Sockets []string `json:"sockets"` // paths to listen on
	// EgressSocket is the socket of the machine's egress port; nil for a machine without one.
	EgressSocket *socket.Owned `json:"egress_socket"`
	Bridge       string        `json:"bridge"` // host bridge to join, or ""
	// ShareSocket is the path of a socket that exists only while a virtiofsd starts.
	Shares      *shares `json:"shares,omitempty"`
	ShareSocket string  `json:"share_socket"`
	// Log is the boot log: the machine's console and QEMU's own output. LogBytes bounds each of its two halves.
	Log      string         `json:"log"`
	LogBytes int            `json:"log_bytes"`
	Jail     *jail          `json:"jail,omitempty"` // nil where this host allows none
	Groups   []cgroup.Group `json:"groups"`
	Rlimits  []rlimit.Limit `json:"rlimits"`
}

type file struct {
	Path  string `json:"path"`
	Write bool   `json:"write"`
}

// A vmResult is the supervisor's answer to its job.
type vmResult struct {
	Ok         bool            `json:"ok"`
	Error      string          `json:"error,omitempty"`
	Qemu       *pidfd.Identity `json:"qemu,omitempty"`
	Supervisor *pidfd.Identity `json:"supervisor,omitempty"`
}

// releaseLine is the daemon's second line: from then on the machine outlives the daemon. Before it, the end of stdin ends the machine, so
// that a daemon that dies leaves no machine that waits for its session for ever.
const releaseLine = "release\n"

const prSetNoNewPrivs = 38

// Supervise starts QEMU, answers with one line, and runs until QEMU ends: it writes the log and adds how QEMU ended.
// The command line has the machine's id, by which the daemon finds leftover processes.
func Supervise() error {
	runtime.LockOSThread()
	// A write to a daemon that is gone must fail and not end this process: QEMU would be left without a supervisor.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	input := strictjson.Input()
	v, err := start(input)
	result := vmResult{Ok: err == nil}
	if err != nil {
		result.Error = err.Error()
	} else {
		result.Qemu, result.Supervisor = v.qemu, v.supervisor
	}
	sendErr := json.NewEncoder(os.Stdout).Encode(result)
	if err != nil {
		return err
	}
	if sendErr != nil {
		v.process.Kill()
		return fmt.Errorf("send result: %w", sendErr)
	}
	os.Stdout.Close()
	go v.awaitRelease(input)
	v.log.copy(v.output)
	v.log.close(v.wait())
	return nil
}

type machine struct {
	process          *os.Process
	qemu, supervisor *pidfd.Identity
	output           *os.File
	log              *bootLog
}

func start(input *bufio.Reader) (*machine, error) {
	j := &vmJob{}
	if err := strictjson.ReadLine(input, j); err != nil {
		return nil, err
	}
	if err := sys.CloseOnExec(); err != nil {
		return nil, err
	}
	log, err := openBootLog(j.Log, j.LogBytes)
	if err != nil {
		return nil, err
	}
	if err := cgroup.Enter(j.Groups); err != nil {
		return nil, err
	}
	if err := cgroup.Limit(j.Groups); err != nil {
		return nil, err
	}
	// SECURITY: QEMU and virtiofsd can never gain privileges, whatever they execute.
	if _, _, errno := syscall.Syscall6(syscall.SYS_PRCTL, prSetNoNewPrivs, 1, 0, 0, 0, 0); errno != 0 {
		return nil, fmt.Errorf("set no-new-privileges: %w", errno)
	}
	reader, writer, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make pipe: %w", err)
	}
	defer writer.Close()
	files, err := j.open(writer)
	if err != nil {
		return nil, err
	}
	defer closeAll(files)
	if err := rlimit.Set(j.Rlimits); err != nil {
		return nil, err
	}
	nothing, err := os.Open(os.DevNull)
	if err != nil {
		return nil, err
	}
	defer nothing.Close()
	attributes, err := j.attributes()
	if err != nil {
		return nil, err
	}
	process, err := os.StartProcess(j.Argv[0], j.Argv, &os.ProcAttr{
		Dir: "/", Env: []string{}, Files: append([]*os.File{nothing, writer, writer}, files...), Sys: attributes,
	})
	if err != nil {
		return nil, fmt.Errorf("start QEMU: %w", err)
	}
	v := &machine{process: process, output: reader, log: log}
	if v.qemu, err = pidfd.Identify(process.Pid); err == nil {
		v.supervisor, err = pidfd.Identify(os.Getpid())
	}
	if err != nil {
		process.Kill()
		return nil, err
	}
	return v, nil
}

// open opens the descriptors in the order in which Argv counts them.
func (j *vmJob) open(log *os.File) ([]*os.File, error) {
	var opened []*os.File
	add := func(file *os.File, err error) error {
		if err == nil {
			opened = append(opened, file)
		}
		return err
	}
	for _, f := range j.Files {
		flags := os.O_RDONLY
		if f.Write {
			flags = os.O_RDWR
		}
		if err := add(os.OpenFile(f.Path, flags|syscall.O_NOFOLLOW, 0)); err != nil {
			return nil, fmt.Errorf("open %s: %w", f.Path, err)
		}
	}
	for _, path := range j.Sockets {
		if err := add(socket.Listen(path)); err != nil {
			return nil, err
		}
	}
	if j.EgressSocket != nil {
		if err := add(j.EgressSocket.Listen()); err != nil {
			return nil, err
		}
	}
	if j.Bridge != "" {
		if err := add(openTap(j.Bridge)); err != nil {
			return nil, err
		}
	}
	served, err := j.Shares.start(j.ShareSocket, log)
	return append(opened, served...), err
}

// attributes builds the jail and returns the attributes that start QEMU in it: without rights, with a root of its own, without network, and
// without a view of other processes.
//
// SECURITY: QEMU is the first process of a user namespace that has only QEMU's own id, and no other process of the host has that id.
func (j *vmJob) attributes() (*syscall.SysProcAttr, error) {
	if j.Jail == nil {
		return &syscall.SysProcAttr{Setsid: true}, nil
	}
	owner := []syscall.SysProcIDMap{{ContainerID: insideID, HostID: j.Jail.ID, Size: 1}}
	return &syscall.SysProcAttr{
		Setsid: true, Chroot: j.Jail.Path,
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET | syscall.CLONE_NEWPID | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS,
		UidMappings: owner, GidMappings: owner, GidMappingsEnableSetgroups: true,
		Credential: &syscall.Credential{Uid: insideID, Gid: insideID, Groups: []uint32{}},
	}, j.Jail.build(j.Files, j.Shares)
}

// awaitRelease kills the machine if stdin ends before the release line.
func (v *machine) awaitRelease(input *bufio.Reader) {
	line, err := input.ReadString('\n')
	if err != nil || line != releaseLine {
		v.process.Kill()
	}
	os.Stdin.Close()
}

// wait waits for QEMU and returns how it ended, as text.
func (v *machine) wait() string {
	ended, err := v.process.Wait()
	if err != nil {
		return fmt.Sprintf("waiting for QEMU failed: %v", err)
	}
	status, ok := ended.Sys().(syscall.WaitStatus)
	switch {
	case ok && status.Signaled():
		return fmt.Sprintf("QEMU was killed by signal %d", status.Signal())
	case ok:
		return fmt.Sprintf("QEMU ended with status %d", status.ExitStatus())
	}
	return "QEMU ended"
}

func closeAll(files []*os.File) {
	for _, file := range files {
		file.Close()
	}
}
