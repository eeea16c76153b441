package egress

import (
	"sync/atomic"
	"syscall"
)

// Descriptors that something may need.
const (
	listenerFiles   = 1
	connectionFiles = 2 // the program's connection, and the stream of the egress process if it is a connection
)

// descriptors count the descriptors that programs make the runner open.
//
// SECURITY: half of the limit stays for the shells, processes and files of the sandbox. Without this a program that
// opens connections could keep the daemon from starting commands.
type descriptors struct{ left atomic.Int64 }

func newDescriptors() *descriptors {
	d := &descriptors{}
	limit := syscall.Rlimit{}
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil || limit.Cur > 1<<20 {
		limit.Cur = 1 << 20
	}
	d.left.Store(int64(limit.Cur / 2))
	return d
}

// take reserves n descriptors; false if too few are left.
func (d *descriptors) take(n int64) bool {
	if d.left.Add(-n) >= 0 {
		return true
	}
	d.left.Add(n)
	return false
}

func (d *descriptors) release(n int64) { d.left.Add(n) }
