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

// A child is a program to be started in a session of its own.
type child struct {
	path string
	argv []string
	env  []string
	dir  string
	// files become descriptors 0, 1, 2, …; a negative number leaves one closed.
	files []int
	who   *account.User // nil: the runner's own user
	tty   bool          // descriptor 0 becomes the controlling terminal
}

// fork creates the process and returns before the process has executed its program; awaitProgram waits for that.
// Calls must not overlap: no other child may inherit the status pipe, which is closed when this child executes its
// program.
//
// SECURITY: syscall.ForkExec is not safe here. As soon as the child has become the user of the sandbox, any process
// of that user can stop it. Until the child executes its program, the parent in ForkExec shares its memory and stands
// still, and at the next garbage collection so does the whole runner.
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

// awaitProgram waits until the child executes its program, and returns the error if it cannot. A child that was
// stopped before that counts as started, like one that is stopped right after.
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
