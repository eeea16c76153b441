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

// terminalBuffered is more than the kernel buffers of a terminal hold. After reading this much, a drain has read
// everything that was written before it began.
const terminalBuffered = 64 << 10

// maxReport is far longer than any working directory.
const maxReport = 64 << 10

// readTerminal delivers the output of the terminal until it is closed.
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

// readOnce reads and delivers what is there now.
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

// drain delivers everything that was written to the terminal before the call, then sets the capture for later output.
// A read that finds nothing makes the kernel pass on what writers have already written, so nothing is missed.
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

// readReports handles the reports of the shell until it ends.
//
// SECURITY: programs of the shell's user can take the pipe and write anything to it. So the length of a report is
// limited: a shell that exceeds it is killed, and nothing more is read from it.
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

// parseReport parses "<number> <status> <reason> <cwd>\n\0".
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

// ready handles a report: it decides what the shell does next.
//
// SECURITY: it holds sh.mu, which timeouts and listings need, so it must not wait for the shell.
func (sh *Shell) ready(r report) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if r.cwd != "" {
		sh.cwd = r.cwd
	}
	if r.why == onRequest {
		select {
		case sh.synced <- struct{}{}:
		default:
		}
		return
	}
	switch sh.state {
	case stateStarting:
		sh.announce(r)
	case stateRunning:
		if r.number != sh.number {
			if sh.instruction != "" {
				// An interrupt reached the driver before it read the instruction and may have discarded it: send it
				// again. The driver runs each number once only.
				sh.commandFile.Seek(0, io.SeekStart)
				sh.instruct(sh.instruction)
			}
			return
		}
		if r.why == afterInterrupt {
			sh.interruptReports++
		}
		sh.announce(r)
	case stateAtPrompt:
		if sh.attached > 0 && !sh.isAwaited {
			sh.instruct(instructPrompt)
			return
		}
		sh.state = stateIdle
		sh.announce(r)
	}
}

// announce leaves a report for the goroutine that waits for one. An earlier report that is still there takes
// precedence.
func (sh *Shell) announce(r report) {
	select {
	case sh.reports <- r:
	default:
	}
}

const (
	instructRun    = "r"
	instructWith   = "w" // run with settings, which follow the command
	instructPrompt = "p"
	instructReport = "s"
)

// instruct sends an instruction to the driver; sh takes the number of the command as a line instead. The caller holds
// sh.mu. A shell that has ended is detected elsewhere.
func (sh *Shell) instruct(letter string) {
	sh.instructedAt.Store(procfs.BootTicks())
	if sh.program == "sh" {
		letter = strconv.FormatInt(sh.number, 10) + "\n"
	}
	sys.WriteNow(sh.instructions, letter) // the pipe is full only if another program wrote to it
}

// putCommand writes the next command to the file that the driver reads, and returns the instruction for it.
func (sh *Shell) putCommand(e *execution) (letter string, err error) {
	letter, content := sh.encode(e)
	if _, err := sh.commandFile.WriteAt([]byte(content), 0); err != nil {
		return "", err
	}
	if err := sh.commandFile.Truncate(int64(len(content))); err != nil {
		return "", err
	}
	_, err = sh.commandFile.Seek(0, io.SeekStart) // the shell shares the file offset of this descriptor
	return letter, err
}

// encode encodes a command for the driver of the shell. sh reads only a command line, so settings become part of that
// line.
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
