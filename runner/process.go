package main

import (
	"fmt"
	"os"
	"sort"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	processKept    = 256 << 10 // recent output of a stream
	endedKept      = 256       // processes that have ended and can still be asked about
	terminateGrace = 2 * time.Second

	maxWaitingInput = 4 << 20 // bytes for one process's stdin, of several requests together
)

type size struct {
	Cols int `json:"cols"`
	Rows int `json:"rows"`
}

type processSpec struct {
	Argv       []string          `json:"argv"`
	Cwd        string            `json:"cwd"`
	Env        map[string]string `json:"env"`
	User       string            `json:"user"`
	Tag        *string           `json:"tag"`
	TimeoutMS  int64             `json:"timeout_ms"`
	Stdin      bool              `json:"stdin"`
	TTY        *size             `json:"tty"`
	HoldOutput bool              `json:"hold_output"`
	Detach     bool              `json:"detach"`
}

// A process is one program with streams of its own.
type process struct {
	spec      *processSpec
	pid       int
	user, cwd string
	startedAt time.Time
	stdout    *output
	stderr    *output // nil on a terminal
	term      *terminal
	ended     chan struct{} // closed when the output is complete, which is after the exit

	waiting atomic.Int64  // bytes of requests that wait to be written to stdin
	feeding chan struct{} // full while somebody writes to stdin
	stdinMu sync.Mutex
	stdin   *os.File // nil when it was not asked for or is closed

	mu       sync.Mutex
	exitCode *int
	timedOut bool
	endedAt  time.Time
}

// processes are the running processes and those that ended last.
type processes struct {
	mu    sync.Mutex
	byPID map[int]*process
	past  []*process // ended ones, oldest first
}

func (run *runner) startProcess(spec *processSpec) (*process, error) {
	if len(spec.Argv) == 0 {
		return nil, invalid("argv must not be empty")
	}
	cwd, err := run.directory(spec.Cwd)
	if err != nil {
		return nil, err
	}
	p := &process{spec: spec, cwd: cwd, user: spec.User, startedAt: time.Now(), stdout: newOutput(processKept, spec.HoldOutput), ended: make(chan struct{}), feeding: make(chan struct{}, 1)}
	if p.user == "" {
		p.user = "sandbox"
	}
	files, sources, err := run.processFiles(p)
	if err != nil {
		return nil, err
	}
	pid, exit, err := run.spawn(&program{argv: spec.Argv, cwd: cwd, env: spec.Env, user: spec.User, files: files, tty: spec.TTY != nil})
	for _, file := range files {
		file.Close()
	}
	if err != nil {
		p.closeInput()
		if p.term != nil {
			p.term.close()
		}
		for _, source := range sources {
			source.Close()
		}
		return nil, err
	}
	p.pid = pid
	run.processes.mu.Lock()
	run.processes.byPID[pid] = p
	run.processes.mu.Unlock()
	var reading sync.WaitGroup
	exited := make(chan struct{})
	for i, source := range sources {
		into := p.stdout
		if i == 1 {
			into = p.stderr
		}
		reading.Add(1)
		go func(source *os.File) {
			follow(source, into, exited, reading.Done)
			if p.term == nil {
				source.Close()
			}
		}(source)
	}
	go run.watchProcess(p, exit, exited, &reading)
	return p, nil
}

// watchProcess enforces the timeout and records the end.
func (run *runner) watchProcess(p *process, exit <-chan int, exited chan struct{}, reading *sync.WaitGroup) {
	code := p.waitOrStop(exit)
	p.closeInput()
	p.mu.Lock()
	if p.timedOut {
		code = timeoutCode
	}
	p.exitCode, p.endedAt = &code, time.Now()
	p.mu.Unlock()
	run.processes.retire(p)
	close(exited)
	reading.Wait() // with held output this takes until somebody attaches
	p.stdout.close()
	if p.stderr != nil {
		p.stderr.close()
	}
	if p.term != nil {
		p.term.close()
	}
	close(p.ended)
}

func (p *process) waitOrStop(exit <-chan int) int {
	if p.spec.TimeoutMS <= 0 {
		return <-exit
	}
	timer := time.NewTimer(milliseconds(p.spec.TimeoutMS))
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
		syscall.Kill(-p.pid, syscall.SIGKILL) // what is left of the group
		return code
	case <-timer.C:
		syscall.Kill(-p.pid, syscall.SIGKILL)
		return <-exit
	}
}

// retire forgets the oldest ended process when there are too many.
func (ps *processes) retire(p *process) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	ps.past = append(ps.past, p)
	if len(ps.past) <= endedKept {
		return
	}
	oldest := ps.past[0]
	ps.past = append([]*process(nil), ps.past[1:]...)
	if ps.byPID[oldest.pid] == oldest {
		delete(ps.byPID, oldest.pid)
	}
}

func (ps *processes) find(pid int) (*process, error) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if p, ok := ps.byPID[pid]; ok {
		return p, nil
	}
	return nil, &runnerError{codeProcessNotFound, fmt.Sprintf("no process %d", pid), fields{"pid": pid}}
}

// all lists processes, oldest first.
func (ps *processes) all() []*process {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	list := make([]*process, 0, len(ps.byPID))
	for _, p := range ps.byPID {
		list = append(list, p)
	}
	sort.Slice(list, func(i, j int) bool { return list[i].startedAt.Before(list[j].startedAt) })
	return list
}

// activity is how many processes run, how many of them are detached, and the milliseconds since a detached one ended last; nil when none has.
func (ps *processes) activity() (running, detached int, sinceEnd *int64) {
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

func (p *process) describe() fields {
	p.stdinMu.Lock()
	open := p.stdin != nil
	p.stdinMu.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	f := fields{
		"pid": p.pid, "tag": p.spec.Tag, "argv": p.spec.Argv, "user": p.user, "cwd": text(p.cwd), "running": p.exitCode == nil,
		"exit_code": p.exitCode, "timed_out": p.timedOut, "tty": p.term != nil, "stdin_open": open,
		"detached": p.spec.Detach, "created_at_ms": p.startedAt.UnixMilli(), "ended_at_ms": nil,
	}
	if p.exitCode != nil {
		f["ended_at_ms"] = p.endedAt.UnixMilli()
	}
	return f
}
