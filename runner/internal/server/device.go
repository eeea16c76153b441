package server

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"sandglass/runner/internal/mux"
	"sandglass/runner/internal/wire"
)

const (
	maxHelloLine = 4096 // of a device; longer lines are dropped
	minNonce     = 16
	maxNonce     = 64
)

// serveDevice serves one client after the other until the device fails.
func (e *endpoint) serveDevice(d *mux.Device) error {
	in := bufio.NewReaderSize(d, maxHelloLine)
	for {
		client, err := awaitHello(in)
		if errors.Is(err, io.EOF) && d.Reconnects {
			continue
		}
		if err != nil {
			return err
		}
		w := d.Begin()
		if e.answerDevice(client, w) == nil {
			mux.Serve(in, w, e.serveMessages)
		}
	}
}

// awaitHello drops all input up to a line that is a hello.
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
		if client := asHello(line); client != nil && !isNoise {
			return client, nil
		}
		isNoise = false
	}
}

func asHello(line []byte) *hello {
	client := &hello{}
	if !bytes.HasPrefix(line, []byte("{")) || json.Unmarshal(line, client) != nil {
		return nil
	}
	if client.Type != "hello" || !client.Mux || len(client.Nonce) < minNonce || len(client.Nonce) > maxNonce {
		return nil
	}
	return client
}

// answerDevice answers a hello on a device. The newline before the answer ends a partial line of the previous client.
func (e *endpoint) answerDevice(client *hello, w io.Writer) error {
	kind, answer, refusal := e.answerHello(client)
	line, err := wire.EncodeLine(kind, "", answer, -1)
	if err != nil {
		return err
	}
	if _, err := w.Write(append([]byte("\n"), line...)); err != nil {
		return err
	}
	return refusal
}

const reopenPause = time.Second

// ServeStdio serves the clients on stdin and stdout. With endsWithStdin, the end of stdin ends the sandbox.
func (srv *Server) ServeStdio(endsWithStdin bool) error {
	d, err := mux.OpenStdio()
	if err != nil {
		return err
	}
	go func() {
		srv.endpoint.serveDevice(d)
		if endsWithStdin {
			srv.shutdown(signalGrace)
		}
	}()
	return nil
}

// serveCarrier serves the clients on a device for as long as the runner lives. A device with a name is opened again
// after a failure.
func (e *endpoint) serveCarrier(name string) error {
	d, err := mux.OpenDevice(name)
	if err != nil {
		return err
	}
	go func() {
		for {
			fmt.Fprintln(os.Stderr, "runner: carrier:", e.serveDevice(d))
			d.Close()
			if !d.CanReopen {
				return
			}
			for d = nil; d == nil; d, _ = mux.OpenDevice(name) {
				time.Sleep(reopenPause)
			}
		}
	}()
	return nil
}
