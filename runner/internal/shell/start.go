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

// ownedBy lets the one user read and write a file in memory; nil is whoever the runner is.
//
// SECURITY: nobody else finds it, where the kernel shows descriptors to their owner alone. gVisor shows them to everybody.
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
		sh.state, sh.cwd = idle, first.cwd
		sh.mu.Unlock()
		sh.drain(stdio.NewCapture(keptBytes))
		sh.mu.Lock()
		attached := sh.attached > 0 // while it started
		sh.mu.Unlock()
		if attached {
			sh.showPrompt()
		}
		return sh, nil
	case <-sh.ended:
		return nil, wire.NewError(wire.CodeShellExited, fmt.Sprintf("shell %s ended while starting", sh.name), wire.Fields{"name": sh.name})
	case <-time.After(startTimeout):
		sh.kill()
		return nil, wire.NewError(wire.CodeShellExited, fmt.Sprintf("shell %s did not get ready", sh.name), wire.Fields{"name": sh.name})
	}
}

// launch makes the descriptors of a shell and starts its program.
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
	term, slave, err := terminal.Open(spec.Rows, spec.Cols, who)
	if err != nil {
		return nil, nil, err
	}
	opened, theirs = append(opened, term.File), append(theirs, slave)
	wakeRead, wakeWrite, err := sys.Pipe()
	if err != nil {
		return nil, nil, err
	}
	opened, theirs = append(opened, wakeWrite), append(theirs, wakeRead)
	reportRead, reportWrite, err := sys.Pipe()
	if err != nil {
		return nil, nil, err
	}
	opened, theirs = append(opened, reportRead), append(theirs, reportWrite)
	text, err := sys.MemoryFile("command")
	if err != nil {
		return nil, nil, err
	}
	opened = append(opened, text)
	if err := ownedBy(text, who); err != nil {
		return nil, nil, err
	}
	if _, err := text.WriteAt([]byte(ss.withChosenPath(driver, spec.Env)), 0); err != nil {
		return nil, nil, fmt.Errorf("write shell driver: %w", err)
	}
	files := make([]*os.File, first+3)
	files[0], files[1], files[2] = slave, slave, slave
	files[first], files[first+1], files[first+2] = wakeRead, text, reportWrite
	pid, exit, err := ss.spawner.Start(&spawn.Program{Argv: argv, Cwd: spec.Cwd, Env: spec.Env, User: spec.User, Files: files, TTY: true})
	if err != nil {
		return nil, nil, err
	}
	sh.pid, sh.term, sh.wake, sh.text = pid, term, sys.Nonblocking(wakeWrite), text
	return sys.Nonblocking(reportRead), exit, nil
}

// withChosenPath makes a PATH that somebody chose, for the image, the session or the shell, outlast the profile, which sets its own.
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

// chooseProgram chooses bash, or sh where there is none.
func (ss *Shells) chooseProgram() (argv []string, driver string, first int) {
	if ss.cfg.Shell != "sh" {
		if _, err := spawn.LookPath("bash", "/", spawn.DefaultPath); err == nil {
			// bash reads the driver by name, through a fresh description of the same memory file.
			return []string{"bash", "--rcfile", fmt.Sprintf("/proc/self/fd/%d", bashDescriptors+1), "-i"}, bashDriver, bashDescriptors
		}
	}
	return []string{"sh", fmt.Sprintf("/proc/self/fd/%d", shDescriptors+1)}, shDriver, shDescriptors
}

// watch takes the shell off the list when it ends.
func (ss *Shells) watch(sh *Shell, exit <-chan int) {
	code := <-exit
	ss.mu.Lock()
	if ss.byName[sh.name] == sh {
		delete(ss.byName, sh.name)
	}
	ss.mu.Unlock()
	sh.drain(nil)
	sh.mu.Lock()
	sh.state, sh.exitCode = ended, code
	sh.mu.Unlock()
	close(sh.ended)
	sh.wake.Close()
	sh.text.Close()
	sh.term.Close()
	sh.screen.Close()
}
