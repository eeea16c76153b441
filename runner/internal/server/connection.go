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

// An endpoint is what the clients with one token reach, on any carrier.
type endpoint struct {
	token  string
	bootID string
	table  table
}

type hello struct {
	Type    string `json:"type"`
	Version int    `json:"version"`
	Token   string `json:"token"`
	Mux     bool   `json:"mux"`
	Nonce   string `json:"nonce"` // of a client on a device
}

// accept serves the connections of a listener until it is closed.
func (e *endpoint) accept(listener net.Listener) {
	for {
		conn, err := listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			time.Sleep(20 * time.Millisecond) // no descriptor is free: wait for others to close
			continue
		}
		if socket, ok := conn.(wire.Conn); ok {
			go func() {
				defer socket.Close()
				e.serveConn(socket, wire.NewReader(socket), wire.NewWriter(socket))
			}()
			continue
		}
		conn.Close()
	}
}

// serveConn serves a connection, which the caller closes afterwards: the client sends a hello, the runner answers ready,
// then messages or frames follow.
func (e *endpoint) serveConn(conn wire.Conn, in *wire.Reader, out *wire.Writer) {
	timeout := time.AfterFunc(helloTimeout, func() { conn.Close() })
	client, err := e.handshake(in, out)
	if !timeout.Stop() || err != nil {
		return
	}
	if client.Mux {
		mux.Serve(in.Buf, conn, e.serveMessages)
		return
	}
	e.serveMessages(conn, in, out)
}

// handshake reads the hello and answers it. On an error the connection must be closed.
func (e *endpoint) handshake(in *wire.Reader, out *wire.Writer) (*hello, error) {
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
	client := &hello{}
	if err := json.Unmarshal(line, client); err != nil || client.Type != "hello" {
		err := wire.Invalid("the first line must be a hello")
		out.Fail("", err)
		return nil, err
	}
	kind, answer, refusal := e.answerHello(client)
	if err := out.Message(kind, "", answer, nil); err != nil {
		return nil, err
	}
	return client, refusal
}

// answerHello returns the fields of the ready line, or of the error line if the client is refused.
func (e *endpoint) answerHello(client *hello) (kind string, answer wire.Fields, refusal error) {
	kind, answer = "ready", wire.Fields{"ready": true, "version": ProtocolVersion, "runner": version, "boot_id": e.bootID, "pid": os.Getpid()}
	if refusal = e.authenticate(client); refusal != nil {
		kind, answer = "error", wire.ErrorFields(refusal)
	}
	if client.Nonce != "" {
		answer["nonce"] = client.Nonce
	}
	return kind, answer, refusal
}

// authenticate checks the token and the version of a client.
func (e *endpoint) authenticate(client *hello) error {
	// SECURITY: comparing hashes takes the same time whatever the length and the first difference are.
	given, want := sha256.Sum256([]byte(client.Token)), sha256.Sum256([]byte(e.token))
	if subtle.ConstantTimeCompare(given[:], want[:]) != 1 {
		return wire.NewError(wire.CodeUnauthorized, "wrong token", nil)
	}
	if client.Version != ProtocolVersion {
		return wire.Invalid("unsupported protocol version %d; this runner has version %d", client.Version, ProtocolVersion)
	}
	return nil
}
