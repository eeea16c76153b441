package launch

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"
)

// A vmJob starts one virtual machine and stays with it.
type vmJob struct {
	// Argv is QEMU's. It names what it uses by descriptor: Files from 3 on, then Sockets, then the tap of Bridge.
	Argv    []string `json:"argv"`
	Files   []vmFile `json:"files"`
	Sockets []string `json:"sockets"` // paths to listen on
	Bridge  string   `json:"bridge"`  // host bridge to join, or ""
	// Shares come last among the descriptors. ShareSocket is a path that nobody else uses.
	Shares      *vmShares `json:"shares,omitempty"`
	ShareSocket string    `json:"share_socket"`
	// Log gets what the machine prints on its console and what QEMU itself says; LogBytes bounds each of its two halves.
	Log      string   `json:"log"`
	LogBytes int      `json:"log_bytes"`
	Jail     *vmJail  `json:"jail,omitempty"` // nil where this host allows none
	Groups   []group  `json:"groups"`
	Rlimits  []rlimit `json:"rlimits"`
}

type vmFile struct {
	Path  string `json:"path"`
	Write bool   `json:"write"`
}

type vmStarted struct {
	Ok     bool   `json:"ok"`
	Error  string `json:"error,omitempty"`
	State  *state `json:"state,omitempty"`
	Keeper *state `json:"keeper,omitempty"`
}

// keepWord is what the daemon says when the machine is to live on without it. Before it, a daemon that dies takes the machine along,
// so that no machine is left that waits for its session for ever.
const keepWord = "keep\n"

const prSetNoNewPrivs = 38

// vm starts QEMU, answers with one line, and lives as long as QEMU does: it writes the log and says how QEMU ended.
// Arguments: the machine's id, for people who look at the list of processes.
func vm() error {
	runtime.LockOSThread()
	// A daemon that is gone is an error of the write to it, and not the end of this process: QEMU would be left alone.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	input := bufio.NewReaderSize(os.Stdin, 64<<10)
	v, err := startVM(input)
	answer := vmStarted{Ok: err == nil}
	if err != nil {
		answer.Error = err.Error()
	} else {
		answer.State, answer.Keeper = v.state, v.keeper
	}
	told := json.NewEncoder(os.Stdout).Encode(answer)
	if err != nil {
		return err
	}
	if told != nil {
		v.process.Kill()
		return fmt.Errorf("answer: %w", told)
	}
	os.Stdout.Close()
	go v.awaitKeep(input)
	v.log.copy(v.output)
	v.log.end(v.wait())
	return nil
}

type runningVM struct {
	process       *os.Process
	state, keeper *state
	output        *os.File
	log           *boundedLog
}

func startVM(input *bufio.Reader) (*runningVM, error) {
	j := &vmJob{}
	line, err := input.ReadBytes('\n')
	if err != nil {
		return nil, fmt.Errorf("read job: %w", err)
	}
	if err := json.Unmarshal(line, j); err != nil {
		return nil, fmt.Errorf("parse job: %w", err)
	}
	if err := CloseOnExec(); err != nil {
		return nil, err
	}
	log, err := openBoundedLog(j.Log, j.LogBytes)
	if err != nil {
		return nil, err
	}
	if err := enterGroups(j.Groups); err != nil {
		return nil, err
	}
	if err := limitGroups(j.Groups); err != nil {
		return nil, err
	}
	// SECURITY: QEMU and virtiofsd can never get more rights than they begin with, whatever they execute.
	if _, _, errno := syscall.Syscall6(syscall.SYS_PRCTL, prSetNoNewPrivs, 1, 0, 0, 0, 0); errno != 0 {
		return nil, fmt.Errorf("set no-new-privileges: %w", errno)
	}
	reader, writer, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make pipe: %w", err)
	}
	defer writer.Close()
	given, err := j.open(writer)
	if err != nil {
		return nil, err
	}
	defer closeAll(given)
	if err := takeOn(j.Rlimits); err != nil {
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
		Dir: "/", Env: []string{}, Files: append([]*os.File{nothing, writer, writer}, given...), Sys: attributes,
	})
	if err != nil {
		return nil, fmt.Errorf("start QEMU: %w", err)
	}
	v := &runningVM{process: process, output: reader, log: log}
	if v.state, err = describe(process.Pid); err == nil {
		v.keeper, err = describe(os.Getpid())
	}
	if err != nil {
		process.Kill()
		return nil, err
	}
	return v, nil
}

// open gives the descriptors in the order in which QEMU is told of them.
func (j *vmJob) open(log *os.File) ([]*os.File, error) {
	var given []*os.File
	add := func(file *os.File, err error) error {
		if err == nil {
			given = append(given, file)
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
		if err := add(listen(path)); err != nil {
			return nil, err
		}
	}
	if j.Bridge != "" {
		if err := add(openTap(j.Bridge)); err != nil {
			return nil, err
		}
	}
	shares, err := j.Shares.start(j.ShareSocket, log)
	return append(given, shares...), err
}

// attributes shuts QEMU in: it has no rights, a root of its own, no network, and sees no other process.
//
// SECURITY: it is the first process of a user namespace in which nothing but its own id exists, and that id is nobody's outside.
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

// awaitKeep kills the machine when the daemon is gone without having said that it is to stay.
func (v *runningVM) awaitKeep(input *bufio.Reader) {
	line, err := input.ReadString('\n')
	if err != nil || line != keepWord {
		v.process.Kill()
	}
	os.Stdin.Close()
}

// wait says how QEMU ended.
func (v *runningVM) wait() string {
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
