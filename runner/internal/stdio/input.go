package stdio

import (
	"errors"
	"io"
	"os"
	"time"
)

const (
	PollInterval = 100 * time.Millisecond // between checks whether the client has closed
	GoneGrace    = 2 * time.Second        // for input that a client sent before it closed
)

// ErrClientGone is returned when input is given up because its client has closed.
var ErrClientGone = errors.New("the client is gone")

// Write writes p to a terminal or pipe of the sandbox and waits while it is full. Once the client has closed, it
// gives up when nothing was accepted for GoneGrace. All writes to the file must use it, because it sets the deadline
// of the file.
func Write(file *os.File, p []byte, isGone func() bool) error {
	for progress := time.Now(); ; {
		file.SetWriteDeadline(time.Now().Add(PollInterval))
		n, err := file.Write(p)
		if !os.IsTimeout(err) {
			return err
		}
		if p = p[n:]; n > 0 {
			progress = time.Now()
		}
		if isGone() && time.Since(progress) > GoneGrace {
			return ErrClientGone
		}
	}
}

// Copy passes the body of a message to write in pieces. It ignores other errors of write than ErrClientGone: the end
// of the program is reported separately.
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
