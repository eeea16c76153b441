package spawn

import (
	"syscall"
	"unsafe"
	_ "unsafe" // for linkname
)

const (
	dupAbove    = 1030 // F_DUPFD_CLOEXEC
	closeRange  = 436  // the same on every architecture
	notRunnable = 126  // exit status of a child that could not execute its program
)

// A forkPlan is a child in the form that the system calls take. All memory is allocated here, because nothing may be
// allocated after the fork.
type forkPlan struct {
	path, dir *byte
	argv, env []*byte
	files     []int // a negative number: none
	hasUser   bool
	uid, gid  uintptr
	tty       bool
	status    uintptr // takes the errno if the program cannot be executed
}

func (c *child) plan() (*forkPlan, error) {
	plan := &forkPlan{files: append([]int{}, c.files...), tty: c.tty}
	for _, text := range []struct {
		from string
		to   **byte
	}{{c.path, &plan.path}, {c.dir, &plan.dir}} {
		pointer, err := syscall.BytePtrFromString(text.from)
		if err != nil {
			return nil, err
		}
		*text.to = pointer
	}
	var err error
	if plan.argv, err = syscall.SlicePtrFromStrings(c.argv); err != nil {
		return nil, err
	}
	if plan.env, err = syscall.SlicePtrFromStrings(c.env); err != nil {
		return nil, err
	}
	if c.who != nil {
		plan.hasUser, plan.uid, plan.gid = true, uintptr(c.who.UID), uintptr(c.who.GID)
	}
	return plan, nil
}

// They block signals in the child until its handlers, which are Go code, are removed.
//
//go:linkname runtimeBeforeFork syscall.runtime_BeforeFork
func runtimeBeforeFork()

//go:linkname runtimeAfterFork syscall.runtime_AfterFork
func runtimeAfterFork()

//go:linkname runtimeAfterForkInChild syscall.runtime_AfterForkInChild
func runtimeAfterForkInChild()

// run creates a process that carries out the plan. It returns in the parent only. The child has a copy of the memory
// and a single thread: it must not allocate, grow its stack or call anything but raw system calls, because threads
// that it does not have may hold locks of the runtime.
//
//go:noinline
//go:norace
func (p *forkPlan) run() (pid int, errno syscall.Errno) {
	var (
		i     int
		moved uintptr
		above = uintptr(len(p.files))
	)
	if above < 3 {
		above = 3
	}
	runtimeBeforeFork()
	made, _, errno := syscall.RawSyscall6(syscall.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
	if errno != 0 || made != 0 {
		runtimeAfterFork()
		return int(made), errno
	}
	runtimeAfterForkInChild()

	if _, _, errno = syscall.RawSyscall(syscall.SYS_SETSID, 0, 0, 0); errno != 0 {
		goto failed
	}
	// Move the status pipe and the files above the numbers that the files will get.
	if moved, _, errno = syscall.RawSyscall(syscall.SYS_FCNTL, p.status, dupAbove, above); errno != 0 {
		goto failed
	}
	p.status = moved
	for i = range p.files {
		if p.files[i] < 0 {
			continue
		}
		if moved, _, errno = syscall.RawSyscall(syscall.SYS_FCNTL, uintptr(p.files[i]), dupAbove, above); errno != 0 {
			goto failed
		}
		p.files[i] = int(moved)
	}
	for i = 0; i < int(above); i++ {
		if i >= len(p.files) || p.files[i] < 0 {
			syscall.RawSyscall(syscall.SYS_CLOSE, uintptr(i), 0, 0)
			continue
		}
		if _, _, errno = syscall.RawSyscall(syscall.SYS_DUP3, uintptr(p.files[i]), uintptr(i), 0); errno != 0 {
			goto failed
		}
	}
	if p.tty {
		if _, _, errno = syscall.RawSyscall(syscall.SYS_IOCTL, 0, syscall.TIOCSCTTY, 0); errno != 0 {
			goto failed
		}
	}
	// A child that is stopped from here on must not keep files of other children open. A kernel without close_range
	// closes them at exec.
	if p.status > above {
		syscall.RawSyscall(closeRange, above, p.status-1, 0)
	}
	syscall.RawSyscall(closeRange, p.status+1, ^uintptr(0)>>32, 0)
	if p.hasUser {
		if _, _, errno = syscall.RawSyscall(syscall.SYS_SETGROUPS, 0, 0, 0); errno != 0 {
			goto failed
		}
		if _, _, errno = syscall.RawSyscall(syscall.SYS_SETGID, p.gid, 0, 0); errno != 0 {
			goto failed
		}
		if _, _, errno = syscall.RawSyscall(syscall.SYS_SETUID, p.uid, 0, 0); errno != 0 {
			goto failed
		}
	}
	if _, _, errno = syscall.RawSyscall(syscall.SYS_CHDIR, uintptr(unsafe.Pointer(p.dir)), 0, 0); errno != 0 {
		goto failed
	}
	_, _, errno = syscall.RawSyscall(syscall.SYS_EXECVE,
		uintptr(unsafe.Pointer(p.path)), uintptr(unsafe.Pointer(&p.argv[0])), uintptr(unsafe.Pointer(&p.env[0])))

failed:
	syscall.RawSyscall(syscall.SYS_WRITE, p.status, uintptr(unsafe.Pointer(&errno)), unsafe.Sizeof(errno))
	for {
		syscall.RawSyscall(syscall.SYS_EXIT_GROUP, notRunnable, 0, 0)
	}
}
