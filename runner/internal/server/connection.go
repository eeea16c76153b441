package server

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"net"
	"os"
	"time"

	"sandglass/runner/internal/mux"
	"sandglass/runner/internal/wire"
)

const (
	ProtocolVersion = 1
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
func (run *Server) serveConn(conn wire.Conn) {
	defer conn.Close()
	impatience := time.AfterFunc(helloTimeout, func() { conn.Close() })
	in, out := wire.NewReader(conn), wire.NewWriter(conn)
	said, err := run.handshake(in, out)
	if !impatience.Stop() || err != nil {
		return
	}
	if said.Mux {
		mux.Serve(in.Buf, conn, run.serveMessages)
		return
	}
	run.serveMessages(conn, in, out)
}

// handshake reads the hello and answers it. An error means: close.
func (run *Server) handshake(in *wire.Reader, out *wire.Writer) (*hello, error) {
	line, err := in.Line()
	if err == nil && len(line) > 0 && len(bytes.Trim(line, "\x00")) == 0 {
		line, err = in.Line() // the client begins as on a device
	}
	if err != nil {
		if errors.Is(err, wire.ErrLineTooLong) {
			out.Fail("", wire.Invalid("hello is too long"))
		}
		return nil, err
	}
	said := &hello{}
	if err := json.Unmarshal(line, said); err != nil || said.Type != "hello" {
		err := wire.Invalid("the first line must be a hello")
		out.Fail("", err)
		return nil, err
	}
	kind, answer, refusal := run.answerHello(said)
	if err := out.Message(kind, "", answer, nil); err != nil {
		return nil, err
	}
	return said, refusal
}

// answerHello gives the ready line, or the error line of a refusal.
func (run *Server) answerHello(said *hello) (kind string, answer wire.Fields, refusal error) {
	kind, answer = "ready", wire.Fields{"ready": true, "version": ProtocolVersion, "runner": version, "boot_id": run.bootID, "pid": os.Getpid()}
	if refusal = run.authenticate(said); refusal != nil {
		kind, answer = "error", wire.ErrorFields(refusal)
	}
	if said.Nonce != "" {
		answer["nonce"] = said.Nonce
	}
	return kind, answer, refusal
}

// authenticate tells whether a client may go on.
func (run *Server) authenticate(said *hello) error {
	// SECURITY: hashing first makes the comparison independent of the length and of the place of the first difference.
	given, want := sha256.Sum256([]byte(said.Token)), sha256.Sum256([]byte(run.cfg.Token))
	if subtle.ConstantTimeCompare(given[:], want[:]) != 1 {
		return wire.NewError(wire.CodeUnauthorized, "wrong token", nil)
	}
	if said.Version != ProtocolVersion {
		return wire.Invalid("protocol version %d is not spoken here, %d is", said.Version, ProtocolVersion)
	}
	return nil
}

// Accept serves connections for as long as the runner lives.
func (run *Server) Accept(listener net.Listener) {
	for {
		conn, err := listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			time.Sleep(20 * time.Millisecond) // out of descriptors: others must close first
			continue
		}
		if socket, ok := conn.(wire.Conn); ok {
			go run.serveConn(socket)
			continue
		}
		conn.Close()
	}
}
