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

// A Device is a carrier that has no connections: a virtio port, a terminal, or
// stdin and stdout. Clients come and go without a sign on it, and what one left
// behind stays in its buffers. So a client begins with a hello that has a nonce;
// everything before it is thrown away, and whoever began before is done with.
type Device struct {
	In, Out    *os.File
	Reconnects bool // after the end of input the other side may be there again
	CanReopen  bool // it has a name by which it is opened again after a failure
	atEOF      bool // the last read was at the end; belongs to the one reader

	mu    sync.Mutex // held across one write
	epoch uint64     // counts the clients; only the last may write
}

// Read gives io.EOF each time that the other side goes away, and waits for it when called again.
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

// readOnReturn waits until there is something else than the end, and gives it if it is bytes. A device at its end is
// readable all the while; but the runtime goes by edges, and tries again at the next.
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

// Begin gives the writer of the next client and stops the one before, in the midst of a frame if need be.
func (d *Device) Begin() *deviceWriter {
	d.Out.SetWriteDeadline(time.Now())
	d.mu.Lock()
	defer d.mu.Unlock()
	d.Out.SetWriteDeadline(time.Time{})
	d.epoch++
	return &deviceWriter{d, d.epoch}
}

// A deviceWriter sends to one client, until it is closed or the next one begins.
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

// Close tells the client, which may still be there, that it is done with. It belongs to the one reader.
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
