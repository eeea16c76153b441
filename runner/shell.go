package main

import (
	_ "embed"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	defaultShell   = "main"
	defaultUser    = "sandbox"
	shellRows      = 40
	shellCols      = 120
	shellKept      = 64 << 10 // recent output for terminals that attach
	shellStartTime = 15 * time.Second
	// The descriptors of driver.bash and driver.sh. Those of bash are high, where users' own redirections rarely are; sh knows one digit only.
	bashDescriptors = 241
	shDescriptors   = 7
)

//go:embed driver.bash
var bashDriver string

//go:embed driver.sh
var shDriver string

// shellState says who has the shell.
type shellState int

const (
	shellStarting shellState = iota
	shellIdle                // the driver waits for an instruction
	shellRunning             // a command of exec runs
	shellPrompt              // a person has the prompt, or a program started there runs
	shellEnded
)

// A shell is a bash or sh on a terminal, driven through private descriptors:
// the runner writes an instruction to wake, the command being in text, and the
// shell reports on a pipe whenever it is ready. See driver.bash.
type shell struct {
	name, program, user string
	pid                 int
	createdAt           time.Time
	term                *terminal
	wake                *os.File
	text                *os.File
	screen              *output
	ended               chan struct{} // closed after exitCode is set
	exitCode            int

	readMu  sync.Mutex // held across a read of the terminal and the delivery of what it gave
	buf     [4096]byte // as much as the kernel gives at once
	capture *capture   // takes the output of the running command; when idle, of background jobs, for the next command

	since atomic.Int64 // ticks after boot when it was last told anything

	mu       sync.Mutex
	state    shellState
	cwd      string
	number   int64      // of the last command
	told     string     // the instruction that the driver was woken with for it; the command is in text
	current  *execution // what runs
	reports  chan report
	anew     int           // reports of the running command that an interrupt or an error brought about
	synced   chan struct{} // takes the answer to instructReport
	wanted   bool          // an exec waits for the prompt to end
	attached int
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

type shellSpec struct {
	Name string            `json:"name"`
	Cwd  string            `json:"cwd"`
	Env  map[string]string `json:"env"`
	User string            `json:"user"`
	Cols int               `json:"cols"`
	Rows int               `json:"rows"`
}

// startShell starts a shell and waits until it is ready for its first command.
func (run *runner) startShell(spec *shellSpec) (*shell, error) {
	user := spec.User
	if user == "" {
		user = defaultUser
	}
	sh := &shell{
		name: spec.Name, user: user, createdAt: time.Now(), screen: newOutput(shellKept, false),
		ended: make(chan struct{}), reports: make(chan report, 1), synced: make(chan struct{}, 1),
	}
	reports, exit, err := run.launchShell(sh, spec)
	if err != nil {
		return nil, err
	}
	run.shells.mu.Lock()
	run.shells.byName[sh.name] = sh
	run.shells.mu.Unlock()
	go sh.readTerminal()
	go sh.readReports(reports)
	go run.watchShell(sh, exit)
	select {
	case first := <-sh.reports:
		sh.mu.Lock()
		sh.state, sh.cwd = shellIdle, first.cwd
		sh.mu.Unlock()
		sh.drain(newCapture(shellKept))
		sh.mu.Lock()
		attached := sh.attached > 0 // while it started
		sh.mu.Unlock()
		if attached {
			sh.showPrompt()
		}
		return sh, nil
	case <-sh.ended:
		return nil, &runnerError{codeShellExited, fmt.Sprintf("shell %s ended while starting", sh.name), fields{"name": sh.name}}
	case <-time.After(shellStartTime):
		sh.kill()
		return nil, &runnerError{codeShellExited, fmt.Sprintf("shell %s did not get ready", sh.name), fields{"name": sh.name}}
	}
}

// launchShell makes the descriptors of a shell and starts its program.
func (run *runner) launchShell(sh *shell, spec *shellSpec) (reports *os.File, exit <-chan int, err error) {
	argv, driver, first := run.shellProgram()
	if _, err := lookPath(argv[0], "/", defaultPath); err != nil {
		return nil, nil, unsupported("there is no shell in this image; processes can be started without one")
	}
	sh.program = argv[0]
	who, err := run.cfg.account(spec.User)
	if err != nil {
		return nil, nil, err
	}
	var opened, theirs []*os.File
	defer func() {
		for _, file := range theirs {
			file.Close()
		}
		if err != nil {
			for _, file := range opened {
				file.Close()
			}
		}
	}()
	term, slave, err := openPty(orDefault(spec.Rows, shellRows), orDefault(spec.Cols, shellCols), who)
	if err != nil {
		return nil, nil, err
	}
	opened, theirs = append(opened, term.file), append(theirs, slave)
	wakeRead, wakeWrite, err := pipe()
	if err != nil {
		return nil, nil, err
	}
	opened, theirs = append(opened, wakeWrite), append(theirs, wakeRead)
	reportRead, reportWrite, err := pipe()
	if err != nil {
		return nil, nil, err
	}
	opened, theirs = append(opened, reportRead), append(theirs, reportWrite)
	text, err := memfd("command")
	if err != nil {
		return nil, nil, err
	}
	opened = append(opened, text)
	if err := ownedBy(text, who); err != nil {
		return nil, nil, err
	}
	if _, err := text.WriteAt([]byte(run.keepPath(driver, spec.Env)), 0); err != nil {
		return nil, nil, fmt.Errorf("write shell driver: %w", err)
	}
	files := make([]*os.File, first+3)
	files[0], files[1], files[2] = slave, slave, slave
	files[first], files[first+1], files[first+2] = wakeRead, text, reportWrite
	pid, exit, err := run.spawn(&program{argv: argv, cwd: spec.Cwd, env: spec.Env, user: spec.User, files: files, tty: true})
	if err != nil {
		return nil, nil, err
	}
	sh.pid, sh.term, sh.wake, sh.text = pid, term, unblock(wakeWrite), text
	return unblock(reportRead), exit, nil
}

// keepPath makes a PATH that somebody chose, for the image, the session or the shell, outlast the profile, which sets its own.
func (run *runner) keepPath(driver string, env map[string]string) string {
	path, isChosen := env["PATH"]
	if !isChosen {
		path, isChosen = run.cfg.Env["PATH"]
	}
	if !isChosen {
		return driver
	}
	return strings.Replace(driver, "\n# PATH\n", "\nexport PATH="+quote(path)+"\n", 1)
}

// shellProgram chooses bash, or sh where there is none.
func (run *runner) shellProgram() (argv []string, driver string, first int) {
	if run.cfg.Shell != "sh" {
		if _, err := lookPath("bash", "/", defaultPath); err == nil {
			// bash reads the driver by name, through a fresh description of the same memory file.
			return []string{"bash", "--rcfile", fmt.Sprintf("/proc/self/fd/%d", bashDescriptors+1), "-i"}, bashDriver, bashDescriptors
		}
	}
	return []string{"sh", fmt.Sprintf("/proc/self/fd/%d", shDescriptors+1)}, shDriver, shDescriptors
}

// watchShell takes the shell off the list when it ends.
func (run *runner) watchShell(sh *shell, exit <-chan int) {
	code := <-exit
	run.shells.mu.Lock()
	if run.shells.byName[sh.name] == sh {
		delete(run.shells.byName, sh.name)
	}
	run.shells.mu.Unlock()
	sh.drain(nil)
	sh.mu.Lock()
	sh.state, sh.exitCode = shellEnded, code
	sh.mu.Unlock()
	close(sh.ended)
	sh.wake.Close()
	sh.text.Close()
	sh.term.close()
	sh.screen.close()
}

// kill ends everything in the shell's session.
func (sh *shell) kill() {
	for _, p := range sessionProcesses(sh.pid) {
		syscall.Kill(p.pid, syscall.SIGKILL)
	}
	syscall.Kill(sh.pid, syscall.SIGKILL)
}

func (sh *shell) describe() fields {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	program := sh.program
	return fields{
		"name": sh.name, "pid": sh.pid, "program": program, "user": sh.user, "cwd": text(sh.cwd),
		"busy":     sh.state != shellIdle && !(sh.state == shellPrompt && sh.foreground() == sh.pid),
		"attached": sh.attached, "created_at_ms": sh.createdAt.UnixMilli(),
	}
}
