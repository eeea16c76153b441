package shell

import (
	"bufio"
	"errors"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"

	"sandglass/runner/internal/procfs"
	"sandglass/runner/internal/stdio"
	"sandglass/runner/internal/sys"
)

// The terminal's kernel buffers hold less than this, so what was written
// before a drain began has been read when the drain has read this much.
const terminalBuffered = 64 << 10

// maxReport is far above the longest working directory that anybody has.
const maxReport = 64 << 10

// readTerminal delivers what the terminal shows until it is gone.
func (sh *Shell) readTerminal() {
	raw, err := sh.term.File.SyscallConn()
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
func (sh *Shell) readOnce() (int, error) {
	sh.readMu.Lock()
	defer sh.readMu.Unlock()
	return sh.readLocked()
}

func (sh *Shell) readLocked() (int, error) {
	n, err := sh.term.Read(sh.buf[:])
	if n > 0 {
		if sh.capture != nil {
			sh.capture.Write(sh.buf[:n])
		}
		sh.screen.Write(sh.buf[:n])
	}
	return n, err
}

// drain delivers everything that was written to the terminal before the call,
// then sets where later output is captured. A read that finds nothing makes the
// kernel pass on what is still on its way from writers, so nothing is missed.
func (sh *Shell) drain(next *stdio.Capture) (last *stdio.Capture) {
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
func (sh *Shell) readReports(pipe *os.File) {
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
func (sh *Shell) ready(r report) {
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
	case starting:
		sh.announce(r)
	case running:
		if r.number != sh.number {
			if sh.instruction != "" {
				// An interrupt reached the driver before it took the instruction, perhaps with it: say it again. The
				// driver runs a number once only.
				sh.text.Seek(0, io.SeekStart)
				sh.instruct(sh.instruction)
			}
			return
		}
		if r.why == startedAnew {
			sh.interruptReports++
		}
		sh.announce(r)
	case atPrompt:
		if sh.attached > 0 && !sh.isAwaited {
			sh.instruct(instructPrompt)
			return
		}
		sh.state = idle
		sh.announce(r)
	}
}

// announce leaves a report for whoever waits for one; where one is left already, that one counts.
func (sh *Shell) announce(r report) {
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
func (sh *Shell) instruct(letter string) {
	sh.instructedAt.Store(procfs.BootTicks())
	if sh.program == "sh" {
		letter = strconv.FormatInt(sh.number, 10) + "\n"
	}
	sys.WriteNow(sh.wake, letter) // a full pipe has more instructions in it than the driver ever gets: somebody else put them there
}

// putCommand leaves the next command where the driver finds it, and gives the instruction that goes with it.
func (sh *Shell) putCommand(e *execution) (letter string, err error) {
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
func (sh *Shell) encode(e *execution) (letter, content string) {
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
