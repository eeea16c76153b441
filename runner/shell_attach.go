package main

import (
	"syscall"
	"time"
)

const (
	// wakeKeys make bash's line editor drop the typed line and come back to the driver: see the key in driver.bash.
	wakeKeys      = "\x1b[9241~\r"
	wakePatience  = 300 * time.Millisecond // until an interrupt helps the keys
	wakeGiveUp    = 1500 * time.Millisecond
	promptPolling = 20 * time.Millisecond
)

// takeFromPrompt waits until the shell comes back from a person's prompt, or until the command that waits is stopped. A
// program that runs there is waited for; an idle line editor is sent home.
func (sh *shell) takeFromPrompt(e *execution, watcher execWatcher) {
	sh.mu.Lock()
	sh.wanted = true
	sh.mu.Unlock()
	defer func() {
		sh.mu.Lock()
		sh.wanted = false
		sh.mu.Unlock()
	}()
	var asked time.Time
	isTold, isHelped := false, false
	for wait := time.Millisecond; ; wait = promptPolling {
		if _, done, _ := sh.reportWithin(wait); done {
			return
		}
		if e.isStopped() {
			sh.showPromptAgain()
			return
		}
		switch {
		case !sh.isAtPrompt():
			asked, isHelped = time.Time{}, false
			if !isTold {
				isTold = true
				watcher.waits()
			}
		case asked.IsZero():
			asked = time.Now()
			writeNow(sh.term.file, wakeKeys) // full means that nobody reads, and the interrupt below helps
		case time.Since(asked) > wakeGiveUp:
			sh.kill() // the person has broken the driver
		case time.Since(asked) > wakePatience && !isHelped:
			isHelped = true
			syscall.Kill(sh.pid, syscall.SIGINT)
		}
	}
}

// attachShell connects a person's terminal to a shell: its recent screen, what
// follows, and the person's keys. The shell shows a prompt while anyone is attached.
func attachShell(run *runner, s *stream, q *request) error {
	var spec shellSpec
	if err := q.decode(&spec); err != nil {
		return err
	}
	if spec.Name == "" {
		spec.Name = defaultShell
	}
	if err := checkSize(spec.Rows, spec.Cols); err != nil {
		return err
	}
	sh, err := run.attachable(&spec)
	if err != nil {
		return err
	}
	defer sh.leave()
	if sh.program == "sh" {
		return run.attachBeside(sh, s, &spec)
	}
	if spec.Rows > 0 && spec.Cols > 0 {
		if err := sh.term.resize(spec.Rows, spec.Cols); err != nil {
			return err
		}
	}
	screen := s.attach("stdout", sh.screen, 0)
	screen.isScreen = true
	defer screen.reader.detach()
	if err := s.reply(fields{"shell": sh.describe()}); err != nil {
		return err
	}
	sh.showPrompt()
	return s.follow([]source{screen}, sh.keysOf(s), func() fields {
		<-sh.ended
		return fields{"exit_code": sh.exitCode}
	})
}

// attachable opens the shell in its turn and counts the terminal.
func (run *runner) attachable(spec *shellSpec) (*shell, error) {
	sh := run.findShell(spec.Name)
	if sh == nil {
		turn := run.shells.lines.join(spec.Name)
		defer turn.leave()
		turn.wait()
		opened, _, err := run.openShell(spec)
		if err != nil {
			return nil, err
		}
		sh = opened
	}
	sh.mu.Lock()
	sh.attached++
	sh.mu.Unlock()
	return sh, nil
}

func (sh *shell) leave() {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.attached--
}

// showPromptAgain is for a command that wanted the shell and does not any more: the shell may have come back meanwhile.
func (sh *shell) showPromptAgain() {
	sh.mu.Lock()
	sh.wanted = false
	attached := sh.attached > 0
	sh.mu.Unlock()
	if attached {
		sh.showPrompt()
	}
}

// showPrompt hands an idle shell to the terminal.
func (sh *shell) showPrompt() {
	sh.mu.Lock()
	isIdle := sh.state == shellIdle && sh.program == "bash"
	if isIdle {
		sh.state = shellPrompt
	}
	sh.mu.Unlock()
	if isIdle {
		sh.drain(nil)
		sh.mu.Lock()
		sh.instruct(instructPrompt)
		sh.mu.Unlock()
	}
}

// keysOf types what an attached client sends. What fails because the shell has ended is left out: the client is about to read that.
func (sh *shell) keysOf(s *stream) func(*message) error {
	return func(m *message) error {
		switch m.Type {
		case "stdin":
			return feedFrom(m.body, func(keys []byte) error { return feed(sh.term.file, keys, s.isGone) })
		case "resize":
			var to size
			if err := m.decode(&to); err != nil {
				return err
			}
			if err := checkSize(to.Rows, to.Cols); err != nil {
				return err
			}
			_ = sh.term.resize(to.Rows, to.Cols)
			return nil
		}
		return invalid("unknown message type %q", m.Type)
	}
}

// attachBeside gives the terminal an interactive sh of its own in the directory
// of the shell: a driven sh has no prompt to share. It ends with the terminal.
func (run *runner) attachBeside(sh *shell, s *stream, spec *shellSpec) error {
	tag := "terminal:" + sh.name
	p, err := run.startProcess(&processSpec{
		Argv: []string{"sh", "-i"}, Cwd: sh.directory(), User: sh.user, Tag: &tag, TTY: &size{Cols: spec.Cols, Rows: spec.Rows},
	})
	if err != nil {
		return err
	}
	defer p.signal("HUP", true)
	screen := s.attach("stdout", p.stdout, 0)
	defer screen.reader.detach()
	if err := s.reply(fields{"shell": sh.describe()}); err != nil {
		return err
	}
	return s.follow([]source{screen}, p.inputOf(s), func() fields {
		<-p.ended
		return fields{"exit_code": p.describe()["exit_code"]}
	})
}
