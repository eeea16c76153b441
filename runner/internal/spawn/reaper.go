package spawn

import (
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// A reaper is the only place that waits for children, and there is one per
// process: a second waiter, exec.Cmd.Wait included, would steal its statuses.
// As PID 1 (or as a subreaper) it also reaps the orphans of the sandbox.
type reaper struct {
	oomScore *os.File // /proc/self/oom_score_adj, opened before the process stops being dumpable; nil where there is none

	mu    sync.Mutex // held across fork, so an exit cannot precede its waiter, and not until the child runs its program
	waits map[int]chan<- int
}

func newReaper() *reaper {
	score, err := os.OpenFile("/proc/self/oom_score_adj", os.O_WRONLY, 0)
	if err != nil {
		score = nil // the kernel then chooses among all processes alike
	}
	return &reaper{oomScore: score, waits: map[int]chan<- int{}}
}

// start runs a program and gives its pid and the channel on which its exit
// code (128+n for a signal) arrives once.
func (r *reaper) start(c *child) (int, <-chan int, error) {
	pid, exit, status, err := r.fork(c)
	if err == nil {
		err = awaitProgram(pid, status)
	}
	if err != nil {
		return 0, nil, fmt.Errorf("start %s: %w", c.path, err)
	}
	return pid, exit, nil
}

func (r *reaper) fork(c *child) (int, <-chan int, *os.File, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	// A child inherits the score: out of memory, the kernel ends the sandbox's programs before the runner.
	r.setOomScore("500")
	pid, status, err := c.fork()
	r.setOomScore("0")
	if err != nil {
		return 0, nil, nil, err
	}
	exit := make(chan int, 1)
	r.waits[pid] = exit
	return pid, exit, status, nil
}

func (r *reaper) setOomScore(value string) {
	if r.oomScore != nil {
		r.oomScore.WriteAt([]byte(value), 0)
	}
}

// Loop reaps until the process ends.
func (r *reaper) Loop() {
	children := make(chan os.Signal, 1)
	signal.Notify(children, syscall.SIGCHLD)
	for {
		r.reap()
		<-children
	}
}

func (r *reaper) reap() {
	for {
		var status syscall.WaitStatus
		r.mu.Lock()
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		if err == syscall.EINTR {
			r.mu.Unlock()
			continue
		}
		if err != nil || pid <= 0 {
			r.mu.Unlock()
			return
		}
		exit, ok := r.waits[pid]
		delete(r.waits, pid)
		r.mu.Unlock()
		if ok {
			exit <- exitCode(status)
		}
	}
}

// exitCode is the status as a shell shows it.
func exitCode(status syscall.WaitStatus) int {
	if status.Signaled() {
		return 128 + int(status.Signal())
	}
	return status.ExitStatus()
}
