package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"sync"
	"syscall"
	"time"
)

const (
	maxHelloLine = 4096 // on a device; a longer line is noise
	minNonce     = 16
	maxNonce     = 64
	farewellTime = time.Second // for the last frame to a client that may not read
)

var errNotCurrent = errors.New("another client has begun on this carrier")

// A device is a carrier that has no connections: a virtio port, a terminal, or
// stdin and stdout. Clients come and go without a sign on it, and what one left
// behind stays in its buffers. So a client begins with a hello that has a nonce;
// everything before it is thrown away, and whoever began before is done with.
type device struct {
	in, out   *os.File
	comesBack bool // after the end of input the other side may be there again
	isAway    bool // the last read was at the end; belongs to the one reader

	mu    sync.Mutex // held across one write
	epoch uint64     // counts the clients; only the last may write
}

// Read gives io.EOF each time that the other side goes away, and waits for it when called again.
func (d *device) Read(p []byte) (int, error) {
	if d.isAway && d.comesBack {
		if n, err := d.readOnReturn(p); n > 0 || err != nil {
			d.isAway = false
			return n, err
		}
	}
	n, err := d.in.Read(p)
	d.isAway = errors.Is(err, io.EOF)
	return n, err
}

// readOnReturn waits until there is something else than the end, and gives it if it is bytes. A device at its end is
// readable all the while; but the runtime goes by edges, and tries again at the next.
func (d *device) readOnReturn(p []byte) (n int, err error) {
	raw, err := d.in.SyscallConn()
	if err != nil {
		return 0, err
	}
	err = raw.Read(func(fd uintptr) bool {
		n, _ = syscall.Read(int(fd), p)
		return n != 0
	})
	return n, err
}

// begin gives the writer of the next client and stops the one before, in the midst of a frame if need be.
func (d *device) begin() *deviceWriter {
	d.out.SetWriteDeadline(time.Now())
	d.mu.Lock()
	defer d.mu.Unlock()
	d.out.SetWriteDeadline(time.Time{})
	d.epoch++
	return &deviceWriter{d, d.epoch}
}

// A deviceWriter sends to one client, until it is closed or the next one begins.
type deviceWriter struct {
	d     *device
	epoch uint64
}

func (w *deviceWriter) Write(p []byte) (int, error) {
	w.d.mu.Lock()
	defer w.d.mu.Unlock()
	if w.d.epoch != w.epoch {
		return 0, errNotCurrent
	}
	return w.d.out.Write(p)
}

// Close tells the client, which may still be there, that it is done with. It belongs to the one reader.
func (w *deviceWriter) Close() error {
	last := w.d.begin()
	if w.d.isAway {
		return nil
	}
	w.d.out.SetWriteDeadline(time.Now().Add(farewellTime))
	defer w.d.out.SetWriteDeadline(time.Time{})
	_, err := last.Write(encodeFrame(muxReset, 0, nil))
	return err
}

// serveDevice serves one client after the other until the device fails.
func (run *runner) serveDevice(d *device) error {
	in := bufio.NewReaderSize(d, maxHelloLine)
	for {
		said, err := awaitHello(in)
		if errors.Is(err, io.EOF) && d.comesBack {
			continue
		}
		if err != nil {
			return err
		}
		w := d.begin()
		if run.welcome(said, w) == nil {
			serveMux(in, w, run.serveMessages)
		}
	}
}

// awaitHello drops what comes until a line that is the hello of a client.
func awaitHello(in *bufio.Reader) (*hello, error) {
	for isNoise := false; ; {
		line, err := in.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			isNoise = true
			continue
		}
		if err != nil {
			return nil, err
		}
		if said := asHello(line); said != nil && !isNoise {
			return said, nil
		}
		isNoise = false
	}
}

func asHello(line []byte) *hello {
	said := &hello{}
	if !bytes.HasPrefix(line, []byte("{")) || json.Unmarshal(line, said) != nil {
		return nil
	}
	if said.Type != "hello" || !said.Mux || len(said.Nonce) < minNonce || len(said.Nonce) > maxNonce {
		return nil
	}
	return said
}

// welcome answers a hello on a device. The newline before the answer ends whatever the client before was being sent.
func (run *runner) welcome(said *hello, w io.Writer) error {
	kind, answer, refusal := run.answerHello(said)
	line, err := encodeLine(kind, "", answer, -1)
	if err != nil {
		return err
	}
	if _, err := w.Write(append([]byte("\n"), line...)); err != nil {
		return err
	}
	return refusal
}
