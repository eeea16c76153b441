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
	// wakeKeys make bash's line editor drop the typed line and return to the driver: see the key binding in
	// driver.bash.
	wakeKeys      = "\x1b[9241~\r"
	wakeTimeout   = 300 * time.Millisecond // until an interrupt is sent, too
	wakeGiveUp    = 1500 * time.Millisecond
	promptPolling = 20 * time.Millisecond
)

// claimFromPrompt waits until the shell returns from its prompt, or until the waiting command is stopped. A program
// that runs at the prompt is waited for. An idle line editor is made to return.
func (sh *Shell) claimFromPrompt(e *execution, watcher watcher) {
	sh.mu.Lock()
	sh.isAwaited = true
	sh.mu.Unlock()
	defer func() {
		sh.mu.Lock()
		sh.isAwaited = false
		sh.mu.Unlock()
	}()
	var woken time.Time
	isReported, isInterrupted := false, false
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
			woken, isInterrupted = time.Time{}, false
			if !isReported {
				isReported = true
				watcher.onWait()
			}
		case woken.IsZero():
			woken = time.Now()
			sys.WriteNow(sh.term.File, wakeKeys) // a full terminal means that nothing reads it; the interrupt below helps
		case time.Since(woken) > wakeGiveUp:
			sh.kill() // the person at the prompt has broken the driver
		case time.Since(woken) > wakeTimeout && !isInterrupted:
			isInterrupted = true
			syscall.Kill(sh.pid, syscall.SIGINT)
		}
	}
}

// attach connects a person's terminal to a shell: it sends the recent screen and later output, and types the person's
// keys. The shell shows a prompt while any terminal is attached.
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
	sh, err := ss.openAttached(&spec)
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

// openAttached returns the shell, started if necessary, and counts the terminal.
func (ss *Shells) openAttached(spec *spec) (*Shell, error) {
	sh := ss.find(spec.Name)
	if sh == nil {
		lock := ss.locks.queue(spec.Name)
		defer lock.release()
		lock.wait()
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

// showPromptAgain is for a command that no longer waits for the shell. The shell may have returned from its prompt
// meanwhile.
func (sh *Shell) showPromptAgain() {
	sh.mu.Lock()
	sh.isAwaited = false
	attached := sh.attached > 0
	sh.mu.Unlock()
	if attached {
		sh.showPrompt()
	}
}

// showPrompt makes an idle shell show a prompt.
func (sh *Shell) showPrompt() {
	sh.mu.Lock()
	isIdle := sh.state == stateIdle && sh.program == "bash"
	if isIdle {
		sh.state = stateAtPrompt
	}
	sh.mu.Unlock()
	if isIdle {
		sh.drain(nil)
		sh.mu.Lock()
		sh.instruct(instructPrompt)
		sh.mu.Unlock()
	}
}

// keysOf returns the function that carries out the messages of an attached client. Errors because the shell has ended
// are ignored; the exit message says so.
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

// attachBeside gives the terminal an interactive sh of its own in the directory of the shell, because a driven sh has
// no prompt. The sh ends with the terminal.
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
