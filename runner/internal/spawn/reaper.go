package spawn

import (
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// A reaper is the only place that waits for children, and there is one per process: a second waiter, such as
// exec.Cmd.Wait, would take its statuses. As PID 1 or as a subreaper it also reaps the orphans of the sandbox.
type reaper struct {
	oomScore *os.File // /proc/self/oom_score_adj, opened before the process becomes undumpable; nil if there is none

	mu    sync.Mutex // held across fork, so that an exit cannot precede its waiter, but not until the child executes its program
	waits map[int]chan<- int
}

func newReaper() *reaper {
	score, err := os.OpenFile("/proc/self/oom_score_adj", os.O_WRONLY, 0)
	if err != nil {
		score = nil // the kernel then treats all processes alike
	}
	return &reaper{oomScore: score, waits: map[int]chan<- int{}}
}

// start runs a program. It returns the pid and a channel that receives the exit status once (128+n for signal n).
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
	// Children inherit the score: when memory is exhausted, the kernel ends programs of the sandbox before the
	// runner.
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

// Loop reaps children until the process ends.
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

// exitCode is the exit status as a shell shows it.
func exitCode(status syscall.WaitStatus) int {
	if status.Signaled() {
		return 128 + int(status.Signal())
	}
	return status.ExitStatus()
}
