package process

import (
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"sandglass/runner/internal/stdio"
	"sandglass/runner/internal/sys"
	"sandglass/runner/internal/terminal"
)

// maxPipe is the largest capacity that an unprivileged program can give a pipe with F_SETPIPE_SZ.
const maxPipe = 1 << 20

const drainBuffer = 16 << 10 // bytes that are read at once

// openFiles opens the files that become descriptors 0, 1 and 2 of the process, and the files that the runner reads
// from.
func (ps *Table) openFiles(p *Process) (childFiles, sources []*os.File, err error) {
	if p.spec.TTY != nil {
		who, err := ps.cfg.Account(p.spec.User)
		if err != nil {
			return nil, nil, err
		}
		term, slave, err := terminal.Open(p.spec.TTY.Rows, p.spec.TTY.Cols, who)
		if err != nil {
			return nil, nil, err
		}
		p.term, p.stdin = term, term.File
		return []*os.File{slave, slave, slave}, []*os.File{term.File}, nil
	}
	defer func() {
		if err != nil {
			for _, file := range append(childFiles, sources...) {
				file.Close()
			}
			p.closeInput()
		}
	}()
	if p.spec.Stdin {
		r, w, err := sys.Pipe()
		if err != nil {
			return childFiles, sources, err
		}
		p.stdin, childFiles = sys.Nonblocking(w), append(childFiles, r)
	} else {
		null, err := os.Open(os.DevNull)
		if err != nil {
			return childFiles, sources, fmt.Errorf("open null device: %w", err)
		}
		childFiles = append(childFiles, null)
	}
	for i := 0; i < 2; i++ {
		r, w, err := sys.Pipe()
		if err != nil {
			return childFiles, sources, err
		}
		childFiles, sources = append(childFiles, w), append(sources, sys.Nonblocking(r))
	}
	p.stderr = newOutput(p.spec)
	return childFiles, sources, nil
}

// drain copies the source into out until its end. When the process has exited, it takes what is already there and
// calls complete. Output that descendants of the process write later is read, so that they do not block, and dropped.
func drain(source *os.File, out *stdio.Output, exited <-chan struct{}, complete func()) {
	var once sync.Once
	done := func() { once.Do(complete) }
	defer done()
	go func() {
		<-exited
		source.SetReadDeadline(time.Now())
	}()
	buf := make([]byte, drainBuffer)
	for {
		n, err := source.Read(buf)
		if n > 0 {
			out.Write(buf[:n])
		}
		if os.IsTimeout(err) {
			break
		}
		if err != nil {
			return
		}
	}
	if raw, err := source.SyscallConn(); err == nil {
		raw.Control(func(fd uintptr) {
			// Bounded, because a descendant may fill the pipe faster than it is read.
			for total := 0; total < maxPipe; {
				n, err := syscall.Read(int(fd), buf)
				if n <= 0 || err != nil {
					return
				}
				out.Write(buf[:n])
				total += n
			}
		})
	}
	done()
	source.SetReadDeadline(time.Time{})
	io.Copy(io.Discard, source)
}

func (p *Process) closeInput() {
	p.stdinMu.Lock()
	defer p.stdinMu.Unlock()
	if p.stdin != nil && p.term == nil {
		p.stdin.Close()
	}
	p.stdin = nil
}
