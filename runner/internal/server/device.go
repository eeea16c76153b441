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
	maxHelloLine = 4096 // on a device; a longer line is noise
	minNonce     = 16
	maxNonce     = 64
)

// serveDevice serves one client after the other until the device fails.
func (run *Server) serveDevice(d *mux.Device) error {
	in := bufio.NewReaderSize(d, maxHelloLine)
	for {
		said, err := awaitHello(in)
		if errors.Is(err, io.EOF) && d.Reconnects {
			continue
		}
		if err != nil {
			return err
		}
		w := d.Begin()
		if run.answerDevice(said, w) == nil {
			mux.Serve(in, w, run.serveMessages)
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

// answerDevice answers a hello on a device. The newline before the answer ends whatever the client before was being sent.
func (run *Server) answerDevice(said *hello, w io.Writer) error {
	kind, answer, refusal := run.answerHello(said)
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

// ServeStdio serves the clients on stdin and stdout. If that is the only way in, the sandbox ends with stdin.
func (run *Server) ServeStdio(isAlone bool) error {
	d, err := mux.OpenStdio()
	if err != nil {
		return err
	}
	go func() {
		run.serveDevice(d)
		if isAlone {
			run.shutdown(signalGrace)
		}
	}()
	return nil
}

// ServeCarrier serves the clients on a device for as long as the runner lives. One that fails is opened again, if it has a name.
func (run *Server) ServeCarrier(name string) error {
	d, err := mux.OpenDevice(name)
	if err != nil {
		return err
	}
	go func() {
		for {
			fmt.Fprintln(os.Stderr, "runner: carrier:", run.serveDevice(d))
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
