// Package process runs programs with streams of their own and lists the processes of a sandbox.
package process

import (
	"fmt"
	"os"
	"sort"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"sandglass/runner/internal/account"
	"sandglass/runner/internal/config"
	"sandglass/runner/internal/spawn"
	"sandglass/runner/internal/stdio"
	"sandglass/runner/internal/terminal"
	"sandglass/runner/internal/wire"
)

const (
	keptBytes      = 256 << 10 // recent output per stream
	ackBytes       = 1 << 20   // unacknowledged output per stream with keep_output
	keptProcesses  = 256       // ended processes whose result is kept
	terminateGrace = 2 * time.Second

	maxPendingInput = 4 << 20 // bytes for the stdin of one process, over all requests
)

// A Spec is a process.start request.
type Spec struct {
	Argv       []string          `json:"argv"`
	Cwd        string            `json:"cwd"`
	Env        map[string]string `json:"env"`
	User       string            `json:"user"`
	Tag        *string           `json:"tag"`
	TimeoutMS  int64             `json:"timeout_ms"`
	Stdin      bool              `json:"stdin"`
	TTY        *terminal.Size    `json:"tty"`
	HoldOutput bool              `json:"hold_output"`
	KeepOutput bool              `json:"keep_output"`
	Detach     bool              `json:"detach"`
}

// A Process is one program with its own stdin, stdout and stderr.
type Process struct {
	spec      *Spec
	pid       int
	user, cwd string
	startedAt time.Time
	Stdout    *stdio.Output
	stderr    *stdio.Output // nil on a terminal
	term      *terminal.Terminal
	Ended     chan struct{} // closed when the output is complete, which is after the exit

	pendingInput atomic.Int64  // bytes of requests that wait to be written to stdin
	writing      chan struct{} // a mutex: full while a request writes to stdin
	stdinMu      sync.Mutex
	stdin        *os.File // nil if not requested, or closed

	mu       sync.Mutex
	exitCode *int
	timedOut bool
	endedAt  time.Time
}

// A Table has the running processes and those that ended last.
type Table struct {
	cfg     *config.Config
	spawner *spawn.Spawner
	shells  func() map[int]string // names of the shells, by pid

	mu    sync.Mutex
	byPID map[int]*Process
	past  []*Process // ended processes, oldest first
}

func New(cfg *config.Config, spawner *spawn.Spawner, shells func() map[int]string) *Table {
	return &Table{cfg: cfg, spawner: spawner, shells: shells, byPID: map[int]*Process{}}
}

// Start starts a process and keeps its output for clients that attach.
func (ps *Table) Start(spec *Spec) (*Process, error) {
	if len(spec.Argv) == 0 {
		return nil, wire.Invalid("argv must not be empty")
	}
	cwd, err := ps.spawner.Directory(spec.Cwd)
	if err != nil {
		return nil, err
	}
	p := &Process{spec: spec, cwd: cwd, user: spec.User, startedAt: time.Now(), Stdout: newOutput(spec), Ended: make(chan struct{}), writing: make(chan struct{}, 1)}
	if p.user == "" {
		p.user = account.Default
	}
	files, sources, err := ps.openFiles(p)
	if err != nil {
		return nil, err
	}
	pid, exit, err := ps.spawner.Start(&spawn.Program{Argv: spec.Argv, Cwd: cwd, Env: spec.Env, User: spec.User, Files: files, TTY: spec.TTY != nil})
	for _, file := range files {
		file.Close()
	}
	if err != nil {
		p.closeInput()
		if p.term != nil {
			p.term.Close()
		}
		for _, source := range sources {
			source.Close()
		}
		return nil, err
	}
	p.pid = pid
	ps.mu.Lock()
	ps.byPID[pid] = p
	ps.mu.Unlock()
	var reading sync.WaitGroup
	exited := make(chan struct{})
	for i, source := range sources {
		into := p.Stdout
		if i == 1 {
			into = p.stderr
		}
		reading.Add(1)
		go func(source *os.File) {
			drain(source, into, exited, reading.Done)
			if p.term == nil {
				source.Close()
			}
		}(source)
	}
	go ps.watch(p, exit, exited, &reading)
	return p, nil
}

// watch enforces the timeout and records the end of a process.
func (ps *Table) watch(p *Process, exit <-chan int, exited chan struct{}, reading *sync.WaitGroup) {
	code := p.waitOrStop(exit)
	p.closeInput()
	p.mu.Lock()
	if p.timedOut {
		code = spawn.TimeoutStatus
	}
	p.exitCode, p.endedAt = &code, time.Now()
	p.mu.Unlock()
	ps.retire(p)
	p.makeRoom()
	close(exited)
	reading.Wait() // with hold_output this waits for the first client to attach
	p.Stdout.Close()
	if p.stderr != nil {
		p.stderr.Close()
	}
	if p.term != nil {
		p.term.Close()
	}
	close(p.Ended)
}

func (p *Process) waitOrStop(exit <-chan int) int {
	if p.spec.TimeoutMS <= 0 {
		return <-exit
	}
	timer := time.NewTimer(wire.Milliseconds(p.spec.TimeoutMS))
	defer timer.Stop()
	select {
	case code := <-exit:
		return code
	case <-timer.C:
	}
	p.mu.Lock()
	p.timedOut = true
	p.mu.Unlock()
	syscall.Kill(-p.pid, syscall.SIGTERM)
	syscall.Kill(-p.pid, syscall.SIGCONT)
	timer.Reset(terminateGrace)
	select {
	case code := <-exit:
		syscall.Kill(-p.pid, syscall.SIGKILL) // the rest of the group
		return code
	case <-timer.C:
		syscall.Kill(-p.pid, syscall.SIGKILL)
		return <-exit
	}
}

func (ps *Table) find(pid int) (*Process, error) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if p, ok := ps.byPID[pid]; ok {
		return p, nil
	}
	return nil, wire.NewError(wire.CodeProcessNotFound, fmt.Sprintf("no process %d", pid), wire.Fields{"pid": pid})
}

// all returns the processes, oldest first.
func (ps *Table) all() []*Process {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	list := make([]*Process, 0, len(ps.byPID))
	for _, p := range ps.byPID {
		list = append(list, p)
	}
	sort.Slice(list, func(i, j int) bool { return list[i].startedAt.Before(list[j].startedAt) })
	return list
}

// Activity counts the running processes and the detached ones among them. sinceEnd is the time in milliseconds since
// a detached process last ended; nil if none has.
func (ps *Table) Activity() (running, detached int, sinceEnd *int64) {
	for _, p := range ps.all() {
		p.mu.Lock()
		code, endedAt := p.exitCode, p.endedAt
		p.mu.Unlock()
		switch since := time.Since(endedAt).Milliseconds(); {
		case code == nil && p.spec.Detach:
			detached++
			running++
		case code == nil:
			running++
		case p.spec.Detach && (sinceEnd == nil || since < *sinceEnd):
			sinceEnd = &since
		}
	}
	return running, detached, sinceEnd
}

// Describe returns the process as replies contain it.
func (p *Process) Describe() wire.Fields {
	p.stdinMu.Lock()
	open := p.stdin != nil
	p.stdinMu.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	f := wire.Fields{
		"pid": p.pid, "tag": p.spec.Tag, "argv": p.spec.Argv, "user": p.user, "cwd": wire.Text(p.cwd), "running": p.exitCode == nil,
		"exit_code": p.exitCode, "timed_out": p.timedOut, "tty": p.term != nil, "stdin_open": open,
		"detached": p.spec.Detach, "created_at_ms": p.startedAt.UnixMilli(), "ended_at_ms": nil,
	}
	if p.exitCode != nil {
		f["ended_at_ms"] = p.endedAt.UnixMilli()
	}
	return f
}
