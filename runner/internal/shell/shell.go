package shell

import (
	_ "embed"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"sandglass/runner/internal/procfs"
	"sandglass/runner/internal/stdio"
	"sandglass/runner/internal/terminal"
	"sandglass/runner/internal/wire"
)

const (
	defaultShell = "main"
	keptBytes    = 64 << 10 // recent output for terminals that attach
	startTimeout = 15 * time.Second
	// The descriptors of driver.bash and driver.sh. Those of bash are high, where users' own redirections rarely are; sh knows one digit only.
	bashDescriptors = 241
	shDescriptors   = 7
)

//go:embed driver.bash
var bashDriver string

//go:embed driver.sh
var shDriver string

// state says who has the shell.
type state int

const (
	starting state = iota
	idle           // the driver waits for an instruction
	running        // a command of exec runs
	atPrompt       // a person has the prompt, or a program started there runs
	ended
)

// A Shell is a bash or sh on a terminal, driven through private descriptors:
// the runner writes an instruction to wake, the command being in text, and the
// shell reports on a pipe whenever it is ready. See driver.bash.
type Shell struct {
	name, program, user string
	pid                 int
	createdAt           time.Time
	term                *terminal.Terminal
	wake                *os.File
	text                *os.File
	screen              *stdio.Output
	ended               chan struct{} // closed after exitCode is set
	exitCode            int

	readMu  sync.Mutex     // held across a read of the terminal and the delivery of what it gave
	buf     [4096]byte     // as much as the kernel gives at once
	capture *stdio.Capture // takes the output of the running command; when idle, of background jobs, for the next command

	instructedAt atomic.Int64 // ticks after boot when it was last told anything

	mu               sync.Mutex
	state            state
	cwd              string
	number           int64      // of the last command
	instruction      string     // the instruction that the driver was woken with for it; the command is in text
	current          *execution // what runs
	reports          chan report
	interruptReports int           // reports of the running command that an interrupt or an error brought about
	synced           chan struct{} // takes the answer to instructReport
	isAwaited        bool          // an exec waits for the prompt to end
	attached         int
}

// A report is what the shell says when it is ready.
type report struct {
	number int64
	status int
	why    reportReason
	cwd    string
}

// reportReason is what a report follows.
type reportReason string

const (
	startedAnew reportReason = "1" // an interrupt or an error brought the shell back to its prompt
	asked       reportReason = "2" // instructReport; 0 is the end of a command
)

// cannotEnter is the status of a command whose directory the shell may not enter. It was not run.
const cannotEnter = -1

// kill ends everything in the shell's session.
func (sh *Shell) kill() {
	for _, p := range procfs.InSession(sh.pid) {
		syscall.Kill(p.PID, syscall.SIGKILL)
	}
	syscall.Kill(sh.pid, syscall.SIGKILL)
}

func (sh *Shell) describe() wire.Fields {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	program := sh.program
	return wire.Fields{
		"name": sh.name, "pid": sh.pid, "program": program, "user": sh.user, "cwd": wire.Text(sh.cwd),
		"busy":     sh.state != idle && !(sh.state == atPrompt && sh.foreground() == sh.pid),
		"attached": sh.attached, "created_at_ms": sh.createdAt.UnixMilli(),
	}
}
