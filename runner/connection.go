package main

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"os"
	"time"
)

const (
	protocolVersion = 1
	helloTimeout    = 5 * time.Second
)

type hello struct {
	Type    string `json:"type"`
	Version int    `json:"version"`
	Token   string `json:"token"`
	Mux     bool   `json:"mux"`
	Nonce   string `json:"nonce"` // of one that begins on a carrier
}

// serveConn takes a connection from its first byte to its close: the client
// says hello, the runner answers ready, then come messages or frames.
func (run *runner) serveConn(conn carrier) {
	defer conn.Close()
	impatience := time.AfterFunc(helloTimeout, func() { conn.Close() })
	in, out := newWireReader(conn), &wireWriter{w: conn}
	said, err := run.greet(in, out)
	if !impatience.Stop() || err != nil {
		return
	}
	if said.Mux {
		serveMux(in.buf, conn, run.serveMessages)
		return
	}
	run.serveMessages(conn, in, out)
}

// greet reads the hello and answers it. An error means: close.
func (run *runner) greet(in *wireReader, out *wireWriter) (*hello, error) {
	line, err := in.line()
	if err == nil && len(line) > 0 && len(bytes.Trim(line, "\x00")) == 0 {
		line, err = in.line() // the client begins as on a device
	}
	if err != nil {
		if errors.Is(err, errLineTooLong) {
			out.fail("", invalid("hello is too long"))
		}
		return nil, err
	}
	said := &hello{}
	if err := json.Unmarshal(line, said); err != nil || said.Type != "hello" {
		err := invalid("the first line must be a hello")
		out.fail("", err)
		return nil, err
	}
	kind, answer, refusal := run.answerHello(said)
	if err := out.message(kind, "", answer, nil); err != nil {
		return nil, err
	}
	return said, refusal
}

// answerHello gives the ready line, or the error line of a refusal.
func (run *runner) answerHello(said *hello) (kind string, answer fields, refusal error) {
	kind, answer = "ready", fields{"ready": true, "version": protocolVersion, "runner": version, "boot_id": run.bootID, "pid": os.Getpid()}
	if refusal = run.recognise(said); refusal != nil {
		kind, answer = "error", errorFields(refusal)
	}
	if said.Nonce != "" {
		answer["nonce"] = said.Nonce
	}
	return kind, answer, refusal
}

// recognise tells whether a client may go on.
func (run *runner) recognise(said *hello) error {
	// SECURITY: hashing first makes the comparison independent of the length and of the place of the first difference.
	given, want := sha256.Sum256([]byte(said.Token)), sha256.Sum256([]byte(run.cfg.Token))
	if subtle.ConstantTimeCompare(given[:], want[:]) != 1 {
		return &runnerError{codeUnauthorized, "wrong token", nil}
	}
	if said.Version != protocolVersion {
		return invalid("protocol version %d is not spoken here, %d is", said.Version, protocolVersion)
	}
	return nil
}
