package main

import (
	"bufio"
	"errors"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// The terminal's kernel buffers hold less than this, so what was written
// before a drain began has been read when the drain has read this much.
const terminalBuffered = 64 << 10

// maxReport is far above the longest working directory that anybody has.
const maxReport = 64 << 10

// readTerminal delivers what the terminal shows until it is gone.
func (sh *shell) readTerminal() {
	raw, err := sh.term.file.SyscallConn()
	if err != nil {
		return
	}
	raw.Read(func(uintptr) bool {
		for {
			n, err := sh.readOnce()
			switch {
			case n > 0:
			case errors.Is(err, syscall.EAGAIN):
				return false
			default:
				return true
			}
		}
	})
}

// readOnce reads what is there now and delivers it.
func (sh *shell) readOnce() (int, error) {
	sh.readMu.Lock()
	defer sh.readMu.Unlock()
	return sh.readLocked()
}

func (sh *shell) readLocked() (int, error) {
	n, err := sh.term.read(sh.buf[:])
	if n > 0 {
		if sh.capture != nil {
			sh.capture.write(sh.buf[:n])
		}
		sh.screen.write(sh.buf[:n])
	}
	return n, err
}

// drain delivers everything that was written to the terminal before the call,
// then sets where later output is captured. A read that finds nothing makes the
// kernel pass on what is still on its way from writers, so nothing is missed.
func (sh *shell) drain(next *capture) (last *capture) {
	sh.readMu.Lock()
	defer sh.readMu.Unlock()
	for total := 0; total < terminalBuffered; {
		n, err := sh.readLocked()
		if n <= 0 || err != nil {
			break
		}
		total += n
	}
	last, sh.capture = sh.capture, next
	return last
}

// readReports passes on what the shell says until it ends.
// SECURITY: programs of the shell's user can take the pipe and write what they like to it, so a report has a bound: a
// shell that goes beyond it is ended, and nothing more is read from it.
func (sh *shell) readReports(pipe *os.File) {
	defer pipe.Close()
	in := bufio.NewReaderSize(pipe, 512)
	var line []byte
	for {
		piece, err := in.ReadSlice(0)
		if line = append(line, piece...); len(line) > maxReport {
			sh.kill()
			return
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if err != nil {
			return
		}
		if r, ok := parseReport(string(line)); ok {
			sh.ready(r)
		}
		line = line[:0]
	}
}

// parseReport reads "<number> <status> <reason> <cwd>\n\0".
func parseReport(line string) (report, bool) {
	parts := strings.SplitN(strings.TrimSuffix(line, "\x00"), " ", 4)
	if len(parts) != 4 {
		return report{}, false
	}
	number, err := strconv.ParseInt(parts[0], 10, 64)
	if err != nil {
		return report{}, false
	}
	status, err := strconv.Atoi(parts[1])
	if err != nil {
		return report{}, false
	}
	return report{number, status, reportReason(parts[2]), strings.TrimSuffix(parts[3], "\n")}, true
}

// ready decides what a shell does that has just become ready.
// SECURITY: it holds sh.mu, which timeouts and listings need, so nothing in it may wait for the shell.
func (sh *shell) ready(r report) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if r.cwd != "" {
		sh.cwd = r.cwd
	}
	if r.why == asked {
		select {
		case sh.synced <- struct{}{}:
		default:
		}
		return
	}
	switch sh.state {
	case shellStarting:
		sh.announce(r)
	case shellRunning:
		if r.number != sh.number {
			if sh.told != "" {
				// An interrupt reached the driver before it took the instruction, perhaps with it: say it again. The
				// driver runs a number once only.
				sh.text.Seek(0, io.SeekStart)
				sh.instruct(sh.told)
			}
			return
		}
		if r.why == startedAnew {
			sh.anew++
		}
		sh.announce(r)
	case shellPrompt:
		if sh.attached > 0 && !sh.wanted {
			sh.instruct(instructPrompt)
			return
		}
		sh.state = shellIdle
		sh.announce(r)
	}
}

// announce leaves a report for whoever waits for one; where one is left already, that one counts.
func (sh *shell) announce(r report) {
	select {
	case sh.reports <- r:
	default:
	}
}

const (
	instructRun    = "r"
	instructWith   = "w" // run with settings of its own: what follows the command
	instructPrompt = "p"
	instructReport = "s"
)

// instruct wakes the driver; a shell that is gone is noticed elsewhere. The
// caller holds sh.mu. sh takes a line with the number of the command instead.
func (sh *shell) instruct(letter string) {
	sh.since.Store(bootTicks())
	if sh.program == "sh" {
		letter = strconv.FormatInt(sh.number, 10) + "\n"
	}
	writeNow(sh.wake, letter) // a full pipe has more instructions in it than the driver ever gets: somebody else put them there
}

// putCommand leaves the next command where the driver finds it, and gives the instruction that goes with it.
func (sh *shell) putCommand(e *execution) (letter string, err error) {
	letter, content := sh.encode(e)
	if _, err := sh.text.WriteAt([]byte(content), 0); err != nil {
		return "", err
	}
	if err := sh.text.Truncate(int64(len(content))); err != nil {
		return "", err
	}
	_, err = sh.text.Seek(0, io.SeekStart) // the shell reads from the place that this descriptor has
	return letter, err
}

// encode writes a command as the driver of the shell takes it. sh takes text and nothing else, so that settings become part of it.
func (sh *shell) encode(e *execution) (letter, content string) {
	isPlain := e.Cwd == "" && e.StdinPath == "" && len(e.Env) == 0
	switch {
	case sh.program == "sh" && isPlain:
		return instructRun, e.Cmd
	case sh.program == "sh":
		return instructRun, e.shText()
	case isPlain:
		return instructRun, strconv.FormatInt(sh.number, 10) + "\x00" + e.Cmd + "\x00"
	}
	fields := []string{strconv.FormatInt(sh.number, 10), e.Cmd, e.Cwd, e.StdinPath, e.assignments()}
	return instructWith, strings.Join(fields, "\x00") + "\x00"
}
