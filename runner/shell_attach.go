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

// takeFromPrompt waits until the shell comes back from a person's prompt. A
// program that runs there is waited for; an idle line editor is sent home.
func (sh *shell) takeFromPrompt() {
	sh.mu.Lock()
	sh.wanted = true
	sh.mu.Unlock()
	defer func() {
		sh.mu.Lock()
		sh.wanted = false
		sh.mu.Unlock()
	}()
	var asked time.Time
	interrupted := false
	for wait := time.Millisecond; ; wait = promptPolling {
		if done, _ := sh.doneWithin(wait); done {
			return
		}
		isEditing := sh.term.foregroundGroup() == sh.pid && !sh.term.readsLines()
		switch {
		case !isEditing:
			asked, interrupted = time.Time{}, false
		case asked.IsZero():
			asked = time.Now()
			sh.term.file.WriteString(wakeKeys)
		case time.Since(asked) > wakeGiveUp:
			sh.kill() // the person has broken the driver
		case time.Since(asked) > wakePatience && !interrupted:
			interrupted = true
			syscall.Kill(sh.pid, syscall.SIGINT)
		}
	}
}

// attachShell connects a person's terminal to a shell.
func attachShell(run *runner, s *stream, q *request) error {
	return nil
}
