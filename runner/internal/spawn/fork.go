package spawn

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"
	"unsafe"

	"sandglass/runner/internal/account"
	"sandglass/runner/internal/procfs"
	"sandglass/runner/internal/sys"
)

const stopCheck = 100 * time.Millisecond

// A child is a program about to run in a session of its own.
type child struct {
	path string
	argv []string
	env  []string
	dir  string
	// files become descriptors 0, 1, 2, …; below 0 leaves one closed.
	files []int
	who   *account.User // nil: as whoever the runner is
	tty   bool          // descriptor 0 becomes the controlling terminal
}

// fork makes the process and returns without waiting for it to run its program; awaitProgram does that. One call at a time: no
// other child may get hold of the status, which ends when this one runs its program.
//
// SECURITY: syscall.ForkExec would not do. Once the child has become the user of the sandbox, any process of that user can
// stop it, and until it runs its program the parent of ForkExec shares its memory and stands still, and with it, at the next
// garbage collection, all of the runner.
func (c *child) fork() (pid int, status *os.File, err error) {
	plan, err := c.plan()
	if err != nil {
		return 0, nil, err
	}
	status, theirs, err := os.Pipe()
	if err != nil {
		return 0, nil, fmt.Errorf("make pipe: %w", err)
	}
	defer theirs.Close()
	plan.status = sys.RawFD(theirs)
	pid, errno := plan.run()
	if errno != 0 {
		status.Close()
		return 0, nil, errno
	}
	return pid, status, nil
}

// awaitProgram waits until the child runs its program and gives the reason when it cannot. A child that somebody has stopped
// on its way there counts as started, like one that is stopped right after.
func awaitProgram(pid int, status *os.File) error {
	defer status.Close()
	for {
		var reason syscall.Errno
		status.SetReadDeadline(time.Now().Add(stopCheck))
		_, err := io.ReadFull(status, unsafe.Slice((*byte)(unsafe.Pointer(&reason)), unsafe.Sizeof(reason)))
		switch {
		case err == nil:
			return reason
		case errors.Is(err, io.EOF):
			return nil
		case !os.IsTimeout(err):
			return err
		}
		if stat, ok := procfs.Read(pid); ok && stat.State == 'T' {
			return nil
		}
	}
}
