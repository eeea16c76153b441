package shell

import (
	"syscall"
	"time"

	"sandglass/runner/internal/process"
	"sandglass/runner/internal/stdio"
	"sandglass/runner/internal/sys"
	"sandglass/runner/internal/terminal"
	"sandglass/runner/internal/wire"
)

const (
	// wakeKeys make bash's line editor drop the typed line and come back to the driver: see the key in driver.bash.
	wakeKeys      = "\x1b[9241~\r"
	wakeTimeout   = 300 * time.Millisecond // until an interrupt helps the keys
	wakeGiveUp    = 1500 * time.Millisecond
	promptPolling = 20 * time.Millisecond
)

// claimFromPrompt waits until the shell comes back from a person's prompt, or until the command that waits is stopped. A
// program that runs there is waited for; an idle line editor is sent home.
func (sh *Shell) claimFromPrompt(e *execution, watcher watcher) {
	sh.mu.Lock()
	sh.isAwaited = true
	sh.mu.Unlock()
	defer func() {
		sh.mu.Lock()
		sh.isAwaited = false
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
				watcher.onWait()
			}
		case asked.IsZero():
			asked = time.Now()
			sys.WriteNow(sh.term.File, wakeKeys) // full means that nobody reads, and the interrupt below helps
		case time.Since(asked) > wakeGiveUp:
			sh.kill() // the person has broken the driver
		case time.Since(asked) > wakeTimeout && !isHelped:
			isHelped = true
			syscall.Kill(sh.pid, syscall.SIGINT)
		}
	}
}

// attach connects a person's terminal to a shell: its recent screen, what
// follows, and the person's keys. The shell shows a prompt while anyone is attached.
func (ss *Shells) attach(s *wire.Stream, q *wire.Request) error {
	var spec spec
	if err := q.Decode(&spec); err != nil {
		return err
	}
	if spec.Name == "" {
		spec.Name = defaultShell
	}
	if err := terminal.CheckSize(spec.Rows, spec.Cols); err != nil {
		return err
	}
	sh, err := ss.attachable(&spec)
	if err != nil {
		return err
	}
	defer sh.leave()
	if sh.program == "sh" {
		return ss.attachBeside(sh, s, &spec)
	}
	if spec.Rows > 0 && spec.Cols > 0 {
		if err := sh.term.Resize(spec.Rows, spec.Cols); err != nil {
			return err
		}
	}
	screen := stdio.NewSource(s, "stdout", sh.screen, 0)
	screen.IsScreen = true
	defer screen.Reader.Detach()
	if err := s.Reply(wire.Fields{"shell": sh.describe()}); err != nil {
		return err
	}
	sh.showPrompt()
	return stdio.Follow(s, []stdio.Source{screen}, sh.keysOf(s), func() wire.Fields {
		<-sh.ended
		return wire.Fields{"exit_code": sh.exitCode}
	})
}

// attachable opens the shell in its turn and counts the terminal.
func (ss *Shells) attachable(spec *spec) (*Shell, error) {
	sh := ss.find(spec.Name)
	if sh == nil {
		turn := ss.locks.queue(spec.Name)
		defer turn.release()
		turn.wait()
		opened, _, err := ss.open(spec)
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

func (sh *Shell) leave() {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.attached--
}

// showPromptAgain is for a command that wanted the shell and does not any more: the shell may have come back meanwhile.
func (sh *Shell) showPromptAgain() {
	sh.mu.Lock()
	sh.isAwaited = false
	attached := sh.attached > 0
	sh.mu.Unlock()
	if attached {
		sh.showPrompt()
	}
}

// showPrompt hands an idle shell to the terminal.
func (sh *Shell) showPrompt() {
	sh.mu.Lock()
	isIdle := sh.state == idle && sh.program == "bash"
	if isIdle {
		sh.state = atPrompt
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
func (sh *Shell) keysOf(s *wire.Stream) func(*wire.Message) error {
	return func(m *wire.Message) error {
		switch m.Type {
		case "stdin":
			return stdio.Copy(m.Body, func(keys []byte) error { return stdio.Write(sh.term.File, keys, s.IsGone) })
		case "resize":
			var to terminal.Size
			if err := m.Decode(&to); err != nil {
				return err
			}
			if err := terminal.CheckSize(to.Rows, to.Cols); err != nil {
				return err
			}
			_ = sh.term.Resize(to.Rows, to.Cols)
			return nil
		}
		return wire.Invalid("unknown message type %q", m.Type)
	}
}

// attachBeside gives the terminal an interactive sh of its own in the directory
// of the shell: a driven sh has no prompt to share. It ends with the terminal.
func (ss *Shells) attachBeside(sh *Shell, s *wire.Stream, spec *spec) error {
	tag := "terminal:" + sh.name
	p, err := ss.processes.Start(&process.Spec{
		Argv: []string{"sh", "-i"}, Cwd: sh.directory(), User: sh.user, Tag: &tag, TTY: &terminal.Size{Cols: spec.Cols, Rows: spec.Rows},
	})
	if err != nil {
		return err
	}
	defer p.Signal("HUP", true)
	screen := stdio.NewSource(s, "stdout", p.Stdout, 0)
	defer screen.Reader.Detach()
	if err := s.Reply(wire.Fields{"shell": sh.describe()}); err != nil {
		return err
	}
	return stdio.Follow(s, []stdio.Source{screen}, p.InputOf(s), func() wire.Fields {
		<-p.Ended
		return wire.Fields{"exit_code": p.Describe()["exit_code"]}
	})
}
