package shell

import (
	"fmt"
	"os"
	"strings"
	"time"

	"sandglass/runner/internal/account"
	"sandglass/runner/internal/spawn"
	"sandglass/runner/internal/stdio"
	"sandglass/runner/internal/sys"
	"sandglass/runner/internal/terminal"
	"sandglass/runner/internal/wire"
)

type spec struct {
	Name string            `json:"name"`
	Cwd  string            `json:"cwd"`
	Env  map[string]string `json:"env"`
	User string            `json:"user"`
	Cols int               `json:"cols"`
	Rows int               `json:"rows"`
}

// start starts a shell and waits until it is ready for its first command.
func (ss *Shells) start(spec *spec) (*Shell, error) {
	user := spec.User
	if user == "" {
		user = account.Default
	}
	sh := &Shell{
		name: spec.Name, user: user, createdAt: time.Now(), screen: stdio.NewOutput(keptBytes, false),
		ended: make(chan struct{}), reports: make(chan report, 1), synced: make(chan struct{}, 1),
	}
	reports, exit, err := ss.launch(sh, spec)
	if err != nil {
		return nil, err
	}
	ss.mu.Lock()
	ss.byName[sh.name] = sh
	ss.mu.Unlock()
	go sh.readTerminal()
	go sh.readReports(reports)
	go ss.watch(sh, exit)
	select {
	case first := <-sh.reports:
		sh.mu.Lock()
		sh.state, sh.cwd = stateIdle, first.cwd
		sh.mu.Unlock()
		sh.drain(stdio.NewCapture(keptBytes))
		sh.mu.Lock()
		attached := sh.attached > 0 // attached while the shell started
		sh.mu.Unlock()
		if attached {
			sh.showPrompt()
		}
		return sh, nil
	case <-sh.ended:
		return nil, wire.NewError(wire.CodeShellExited, fmt.Sprintf("shell %s ended while starting", sh.name), wire.Fields{"name": sh.name})
	case <-time.After(startTimeout):
		sh.kill()
		return nil, wire.NewError(wire.CodeShellExited, fmt.Sprintf("shell %s did not start in time", sh.name), wire.Fields{"name": sh.name})
	}
}

// launch opens the descriptors of a shell and starts its program.
func (ss *Shells) launch(sh *Shell, spec *spec) (reports *os.File, exit <-chan int, err error) {
	argv, driver, first := ss.chooseProgram()
	if _, err := spawn.LookPath(argv[0], "/", spawn.DefaultPath); err != nil {
		return nil, nil, wire.Unsupported("there is no shell in this image; processes can be started without one")
	}
	sh.program = argv[0]
	who, err := ss.cfg.Account(spec.User)
	if err != nil {
		return nil, nil, err
	}
	var opened, childFiles []*os.File
	defer func() {
		for _, file := range childFiles {
			file.Close()
		}
		if err != nil {
			for _, file := range opened {
				file.Close()
			}
		}
	}()
	term, slave, err := terminal.Open(spec.Rows, spec.Cols, who)
	if err != nil {
		return nil, nil, err
	}
	opened, childFiles = append(opened, term.File), append(childFiles, slave)
	instructionRead, instructionWrite, err := sys.Pipe()
	if err != nil {
		return nil, nil, err
	}
	opened, childFiles = append(opened, instructionWrite), append(childFiles, instructionRead)
	reportRead, reportWrite, err := sys.Pipe()
	if err != nil {
		return nil, nil, err
	}
	opened, childFiles = append(opened, reportRead), append(childFiles, reportWrite)
	commandFile, err := sys.MemoryFile("command")
	if err != nil {
		return nil, nil, err
	}
	opened = append(opened, commandFile)
	if err := ownedBy(commandFile, who); err != nil {
		return nil, nil, err
	}
	if _, err := commandFile.WriteAt([]byte(ss.withChosenPath(driver, spec.Env)), 0); err != nil {
		return nil, nil, fmt.Errorf("write shell driver: %w", err)
	}
	files := make([]*os.File, first+3)
	files[0], files[1], files[2] = slave, slave, slave
	files[first], files[first+1], files[first+2] = instructionRead, commandFile, reportWrite
	pid, exit, err := ss.spawner.Start(&spawn.Program{Argv: argv, Cwd: spec.Cwd, Env: spec.Env, User: spec.User, Files: files, TTY: true})
	if err != nil {
		return nil, nil, err
	}
	sh.pid, sh.term, sh.instructions, sh.commandFile = pid, term, sys.Nonblocking(instructionWrite), commandFile
	return sys.Nonblocking(reportRead), exit, nil
}

// withChosenPath makes the driver set the PATH that the image, the session or the shell chose, after the profile has
// set its own.
func (ss *Shells) withChosenPath(driver string, env map[string]string) string {
	path, isChosen := env["PATH"]
	if !isChosen {
		path, isChosen = ss.cfg.Env["PATH"]
	}
	if !isChosen {
		return driver
	}
	return strings.Replace(driver, "\n# PATH\n", "\nexport PATH="+quote(path)+"\n", 1)
}

// chooseProgram chooses bash, or sh where there is no bash.
func (ss *Shells) chooseProgram() (argv []string, driver string, first int) {
	if ss.cfg.Shell != "sh" {
		if _, err := spawn.LookPath("bash", "/", spawn.DefaultPath); err == nil {
			// bash opens the driver by path, which gives it a file offset of its own.
			return []string{"bash", "--rcfile", fmt.Sprintf("/proc/self/fd/%d", bashDescriptors+1), "-i"}, bashDriver, bashDescriptors
		}
	}
	return []string{"sh", fmt.Sprintf("/proc/self/fd/%d", shDescriptors+1)}, shDriver, shDescriptors
}

// watch removes the shell from the list when it ends.
func (ss *Shells) watch(sh *Shell, exit <-chan int) {
	code := <-exit
	ss.mu.Lock()
	if ss.byName[sh.name] == sh {
		delete(ss.byName, sh.name)
	}
	ss.mu.Unlock()
	sh.drain(nil)
	sh.mu.Lock()
	sh.state, sh.exitCode = stateEnded, code
	sh.mu.Unlock()
	close(sh.ended)
	sh.instructions.Close()
	sh.commandFile.Close()
	sh.term.Close()
	sh.screen.Close()
}

// ownedBy makes a memory file readable and writable for one user only; nil is the runner's own.
//
// SECURITY: most kernels show the descriptors of a process to its owner only. gVisor shows them to every user.
func ownedBy(file *os.File, who *account.User) error {
	if who != nil {
		if err := file.Chown(int(who.UID), int(who.GID)); err != nil {
			return fmt.Errorf("hand over memory file: %w", err)
		}
	}
	if err := file.Chmod(0o600); err != nil {
		return fmt.Errorf("close memory file to others: %w", err)
	}
	return nil
}
