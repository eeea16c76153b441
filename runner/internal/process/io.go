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

// maxPipe is the most that a pipe can hold: what an unprivileged program may set with F_SETPIPE_SZ.
const maxPipe = 1 << 20

// openFiles opens what the process gets as 0, 1 and 2, and what the runner reads from.
func (ps *Table) openFiles(p *Process) (theirs, sources []*os.File, err error) {
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
			for _, file := range append(theirs, sources...) {
				file.Close()
			}
			p.closeInput()
		}
	}()
	if p.spec.Stdin {
		r, w, err := sys.Pipe()
		if err != nil {
			return theirs, sources, err
		}
		p.stdin, theirs = sys.Nonblocking(w), append(theirs, r)
	} else {
		null, err := os.Open(os.DevNull)
		if err != nil {
			return theirs, sources, fmt.Errorf("open null device: %w", err)
		}
		theirs = append(theirs, null)
	}
	for i := 0; i < 2; i++ {
		r, w, err := sys.Pipe()
		if err != nil {
			return theirs, sources, err
		}
		theirs, sources = append(theirs, w), append(sources, sys.Nonblocking(r))
	}
	p.stderr = stdio.NewOutput(keptBytes, p.spec.HoldOutput)
	return theirs, sources, nil
}

// drain moves what the source gives into out until its end. Once the process
// has exited, what is already there is taken and the stream counts as
// complete; a descendant that writes on is read, so that it does not block, and dropped.
func drain(source *os.File, out *stdio.Output, exited <-chan struct{}, complete func()) {
	var once sync.Once
	done := func() { once.Do(complete) }
	defer done()
	go func() {
		<-exited
		source.SetReadDeadline(time.Now())
	}()
	buf := make([]byte, 16<<10)
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
			// Bounded, for a descendant may fill the pipe faster than it is emptied.
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
