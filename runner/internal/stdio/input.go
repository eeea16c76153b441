package stdio

import (
	"errors"
	"io"
	"os"
	"time"
)

const (
	PollInterval = 100 * time.Millisecond // between looks at whether the client is still there
	GoneGrace    = 2 * time.Second        // for what a client sent before it went
)

var ErrClientGone = errors.New("the client is gone")

// Write writes p to a terminal or pipe of the sandbox. While that is full it waits, but for a client that has gone only as
// long as something is taken now and then. Everything that writes to the file does it here: the deadline is the file's.
func Write(file *os.File, p []byte, isGone func() bool) error {
	for taken := time.Now(); ; {
		file.SetWriteDeadline(time.Now().Add(PollInterval))
		n, err := file.Write(p)
		if !os.IsTimeout(err) {
			return err
		}
		if p = p[n:]; n > 0 {
			taken = time.Now()
		}
		if isGone() && time.Since(taken) > GoneGrace {
			return ErrClientGone
		}
	}
}

// Copy passes a message's bytes to write, piece by piece. What write does not want any more is dropped: that the
// program has ended is told elsewhere.
func Copy(body io.Reader, write func([]byte) error) error {
	buf := make([]byte, 16<<10)
	for {
		n, err := body.Read(buf)
		if n > 0 && errors.Is(write(buf[:n]), ErrClientGone) {
			return ErrClientGone
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
