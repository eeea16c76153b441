// Package shell runs the shells of a sandbox on pseudo terminals, and the commands of exec in them.
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
	// The first descriptors of driver.bash and driver.sh. Those of bash are high, where redirections of users rarely
	// are; sh supports only one digit.
	bashDescriptors = 241
	shDescriptors   = 7
)

//go:embed driver.bash
var bashDriver string

//go:embed driver.sh
var shDriver string

// A state tells who uses the shell.
type state int

const (
	stateStarting state = iota
	stateIdle           // the driver waits for an instruction
	stateRunning        // a command of exec runs
	stateAtPrompt       // a person uses the prompt, or runs a program there
	stateEnded
)

// A Shell is a bash or sh on a terminal, controlled through private descriptors. The runner writes the command to
// commandFile and an instruction to instructions; the shell writes a report to a pipe whenever it is ready. See
// driver.bash.
type Shell struct {
	name, program, user string
	pid                 int
	createdAt           time.Time
	term                *terminal.Terminal
	instructions        *os.File
	commandFile         *os.File
	screen              *stdio.Output
	ended               chan struct{} // closed after exitCode is set
	exitCode            int

	readMu  sync.Mutex     // held while the terminal is read and the output delivered
	buf     [4096]byte     // as much as the kernel returns at once
	capture *stdio.Capture // takes the output of the running command; while idle, the output of background jobs for the next command

	instructedAt atomic.Int64 // boot ticks of the last instruction

	mu               sync.Mutex
	state            state
	cwd              string
	number           int64      // of the last command
	instruction      string     // sent for the last command, which is in commandFile
	current          *execution // the running command
	reports          chan report
	interruptReports int           // reports of the running command that follow an interrupt or an error
	synced           chan struct{} // receives the answer to instructReport
	isAwaited        bool          // an exec waits for the prompt to end
	attached         int
}

// A report is sent by the shell when it is ready.
type report struct {
	number int64
	status int
	why    reportReason
	cwd    string
}

// A reportReason tells why a report was sent.
type reportReason string

const (
	afterInterrupt reportReason = "1" // an interrupt or an error returned the shell to its prompt
	onRequest      reportReason = "2" // answers instructReport; 0 is the end of a command
)

// cannotEnter is the status of a command whose directory the shell may not enter. The command was not run.
const cannotEnter = -1

// kill kills all processes in the session of the shell.
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
		"busy":     sh.state != stateIdle && !(sh.state == stateAtPrompt && sh.foreground() == sh.pid),
		"attached": sh.attached, "created_at_ms": sh.createdAt.UnixMilli(),
	}
}
