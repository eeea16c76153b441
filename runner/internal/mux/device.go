package mux

import (
	"errors"
	"io"
	"os"
	"sync"
	"syscall"
	"time"
)

const lastFrameTimeout = time.Second // for the last frame to a client that may not read

var errNotCurrent = errors.New("another client has begun on this carrier")

// A Device is a carrier without connections: a virtio port, a terminal, or stdin and stdout. It does not show when a
// client comes or goes, and bytes of a client that is gone stay in its buffers. So a client begins with a hello that
// has a nonce. Everything before that hello is dropped, and the streams of the previous client end.
type Device struct {
	In, Out    *os.File
	Reconnects bool // after the end of input another client may connect
	CanReopen  bool // it has a name, so it can be opened again after a failure
	atEOF      bool // the last read returned io.EOF; used by the one reader only

	mu    sync.Mutex // held during one write
	epoch uint64     // number of the current client; only that client may be written to
}

// Read returns io.EOF each time the other side disconnects. The next call waits until it is connected again.
func (d *Device) Read(p []byte) (int, error) {
	if d.atEOF && d.Reconnects {
		if n, err := d.readOnReturn(p); n > 0 || err != nil {
			d.atEOF = false
			return n, err
		}
	}
	n, err := d.In.Read(p)
	d.atEOF = errors.Is(err, io.EOF)
	return n, err
}

// readOnReturn waits until a read gives something other than the end of input, and returns the bytes. A device at its
// end is always readable, but the runtime polls edge-triggered and tries again only at the next event.
func (d *Device) readOnReturn(p []byte) (n int, err error) {
	raw, err := d.In.SyscallConn()
	if err != nil {
		return 0, err
	}
	err = raw.Read(func(fd uintptr) bool {
		n, _ = syscall.Read(int(fd), p)
		return n != 0
	})
	return n, err
}

func (d *Device) Close() { d.In.Close() }

// Begin ends the previous client, in the middle of a frame if necessary, and returns the writer for the next one.
func (d *Device) Begin() io.WriteCloser {
	d.Out.SetWriteDeadline(time.Now())
	d.mu.Lock()
	defer d.mu.Unlock()
	d.Out.SetWriteDeadline(time.Time{})
	d.epoch++
	return &deviceWriter{d, d.epoch}
}

// A deviceWriter writes to one client, until it is closed or the next client begins.
type deviceWriter struct {
	d     *Device
	epoch uint64
}

func (w *deviceWriter) Write(p []byte) (int, error) {
	w.d.mu.Lock()
	defer w.d.mu.Unlock()
	if w.d.epoch != w.epoch {
		return 0, errNotCurrent
	}
	return w.d.Out.Write(p)
}

// Close sends the client, if it is still there, a RESET of stream 0. Only the reader of the device may call it.
func (w *deviceWriter) Close() error {
	last := w.d.Begin()
	if w.d.atEOF {
		return nil
	}
	w.d.Out.SetWriteDeadline(time.Now().Add(lastFrameTimeout))
	defer w.d.Out.SetWriteDeadline(time.Time{})
	_, err := last.Write(EncodeFrame(Reset, 0, nil))
	return err
}
