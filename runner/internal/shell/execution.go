package shell

import (
	"strings"
	"sync"
	"time"

	"sandglass/runner/internal/wire"
)

const defaultTimeout = 30 * time.Second // of a command without a stream; a stream has none

type execRequest struct {
	Cmd            string            `json:"cmd"`
	Shell          string            `json:"shell"`
	User           string            `json:"user"`
	Cwd            string            `json:"cwd"`
	Env            map[string]string `json:"env"`
	StdinPath      string            `json:"stdin_path"`
	TimeoutMS      int64             `json:"timeout_ms"`
	MaxOutputBytes *int              `json:"max_output_bytes"`
	Key            string            `json:"key"`
}

// An execution is one exec request, while it waits for its shell and while it runs there.
type execution struct {
	execRequest
	lock  *ticket
	timer *time.Timer   // nil: no timeout
	ended chan struct{} // closed when the command is over

	once    sync.Once
	stopped chan struct{} // closed after reason is set: a running command is ended, a waiting one never starts
	reason  stopReason
}

type stopReason int

const (
	timedOut stopReason = iota
	interrupted
)

// newExecution queues the request for its shell. The timeout starts here.
func (ss *Shells) newExecution(r execRequest, streams bool) *execution {
	e := &execution{execRequest: r, ended: make(chan struct{}), stopped: make(chan struct{})}
	if limit, ok := r.timeout(streams); ok {
		e.timer = time.AfterFunc(limit, func() { e.stop(timedOut) })
	}
	e.lock = ss.locks.queue(r.Shell)
	ss.executions.add(e)
	return e
}

func (r *execRequest) timeout(streams bool) (limit time.Duration, ok bool) {
	if r.TimeoutMS > 0 {
		return wire.Milliseconds(r.TimeoutMS), true
	}
	return defaultTimeout, !streams
}

// stop asks the execution to end. The first reason counts.
func (e *execution) stop(why stopReason) {
	e.once.Do(func() {
		e.reason = why
		close(e.stopped)
	})
}

func (e *execution) isStopped() bool {
	select {
	case <-e.stopped:
		return true
	default:
		return false
	}
}

// finish unlocks the shell for the next command.
func (ss *Shells) finish(e *execution) {
	if e.timer != nil {
		e.timer.Stop()
	}
	ss.executions.remove(e)
	e.lock.release()
	close(e.ended)
}

// executions are the commands that their client can cancel, by the key that the client chose.
type executions struct {
	mu    sync.Mutex
	byKey map[string]*execution
}

func (x *executions) add(e *execution) {
	if e.Key == "" {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.byKey == nil {
		x.byKey = map[string]*execution{}
	}
	x.byKey[e.Key] = e
}

func (x *executions) remove(e *execution) {
	if e.Key == "" {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.byKey[e.Key] == e {
		delete(x.byKey, e.Key)
	}
}

func (x *executions) find(key string) *execution {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.byKey[key]
}

// check rejects an invalid request.
func (r *execRequest) check() error {
	switch {
	case r.Cmd == "":
		return wire.Invalid("cmd must not be empty")
	case len(r.Cmd) > maxCommandBytes:
		return wire.Invalid("cmd must be at most %d bytes", maxCommandBytes)
	case strings.ContainsRune(r.Cmd, 0):
		return wire.Invalid("cmd must not contain NUL")
	case strings.ContainsRune(r.Cwd, 0) || strings.ContainsRune(r.StdinPath, 0):
		return wire.Invalid("cwd and stdin_path must not contain NUL")
	case r.TimeoutMS < 0:
		return wire.Invalid("timeout_ms must not be negative")
	case r.MaxOutputBytes != nil && (*r.MaxOutputBytes < 0 || *r.MaxOutputBytes > wire.MaxBodyBytes):
		return wire.Invalid("max_output_bytes must be 0 to %d", wire.MaxBodyBytes)
	case len(r.Key) > 64:
		return wire.Invalid("key must have at most 64 characters")
	case !isName(r.Shell):
		return invalidShellName()
	}
	// SECURITY: names and values become part of a command line.
	for name, value := range r.Env {
		if !isEnvName(name) || strings.ContainsRune(value, 0) {
			return wire.Invalid("env: %q is not a name of a-z, A-Z, 0-9 and _, or its value contains NUL", name)
		}
	}
	return nil
}
