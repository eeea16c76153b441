package main

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

const (
	protocolVersion = 1
	helloTimeout    = 5 * time.Second
	maxConcurrent   = 256 // requests of one connection that run at once
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
	if refusal = run.admit(said); refusal != nil {
		kind, answer = "error", errorFields(refusal)
	}
	if said.Nonce != "" {
		answer["nonce"] = said.Nonce
	}
	return kind, answer, refusal
}

// admit tells whether a client may go on.
func (run *runner) admit(said *hello) error {
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

// serveMessages answers requests until the client is done or breaks a rule.
// Replies to requests that still run are sent before the connection closes.
func (run *runner) serveMessages(conn carrier, in *wireReader, out *wireWriter) {
	var running sync.WaitGroup
	defer running.Wait()
	gone := make(chan struct{})
	defer close(gone)
	slots := make(chan struct{}, maxConcurrent)
	for shared := false; ; shared = true {
		q, err := readRequest(in)
		if err != nil {
			if !errors.Is(err, io.EOF) {
				id := ""
				if q != nil {
					id = q.id
				}
				out.fail(id, err)
			}
			return
		}
		take, isStream := streamHandlers[q.kind]
		if isStream = isStream && q.isStream(); isStream && shared {
			out.fail(q.id, invalid("%s needs a connection of its own", q.kind))
			return
		}
		if admit, ok := admissions[q.kind]; ok {
			if err := admit(run, q); err != nil {
				out.fail(q.id, err)
				continue
			}
		}
		if isStream {
			run.serveStream(take, &stream{id: q.id, kind: q.kind, in: in, out: out, conn: conn}, q)
			return
		}
		answer, ok := handlers[q.kind]
		if !ok {
			out.fail(q.id, invalid("unknown request type %q", q.kind))
			continue
		}
		if q.size > maxBodyBytes {
			out.fail(q.id, &runnerError{codeBodyTooLarge, "body is larger than 64 MiB", fields{"limit": maxBodyBytes}})
			return
		}
		slots <- struct{}{}
		running.Add(1)
		// The body is read from the connection by the handler, so the next request waits until it has all of it.
		consumed := make(chan struct{})
		gate := &gatedBody{r: q.body, done: consumed}
		q.body, q.gone = gate, gone
		if q.size == 0 {
			gate.finish()
		}
		go func() {
			defer running.Done()
			run.answer(answer, q, out)
			gate.finish()
			<-slots
		}()
		<-consumed
	}
}

// answer runs one handler and sends what it gives.
func (run *runner) answer(h handler, q *request, out *wireWriter) {
	defer func() {
		if p := recover(); p != nil {
			out.fail(q.id, fmt.Errorf("%s failed: %v", q.kind, p)) // PID 1 lives on
		}
	}()
	reply, body, err := h(run, q)
	if err != nil {
		out.fail(q.id, err)
		return
	}
	out.message(q.kind, q.id, reply, body)
}

func (run *runner) serveStream(take streamHandler, s *stream, q *request) {
	defer func() {
		if p := recover(); p != nil {
			s.out.fail("", fmt.Errorf("%s failed: %v", q.kind, p))
		}
	}()
	err := take(run, s, q)
	if err == nil || isClosed(err) {
		return
	}
	if s.replied {
		s.out.fail("", err)
		return
	}
	s.out.fail(q.id, err)
}

// readRequest reads one request line. The request is there beside an error as soon as its id is known.
func readRequest(in *wireReader) (*request, error) {
	line, err := in.line()
	if err != nil {
		if errors.Is(err, errLineTooLong) {
			return nil, invalid("%v", err)
		}
		return nil, err
	}
	var head struct {
		ID     string `json:"id"`
		Type   string `json:"type"`
		Bytes  *int64 `json:"bytes"`
		Stream bool   `json:"stream"`
	}
	if err := json.Unmarshal(line, &head); err != nil {
		return nil, invalid("request is not a JSON object: %v", err)
	}
	if len(head.ID) < 1 || len(head.ID) > 64 {
		return nil, invalid("id must have 1 to 64 characters")
	}
	q := &request{id: head.ID, kind: head.Type, raw: line, streams: head.Stream}
	if head.Bytes != nil {
		if *head.Bytes < 0 {
			return q, invalid("bytes must not be negative")
		}
		q.hasBody, q.size = true, *head.Bytes
	}
	q.body = in.body(q.size)
	return q, nil
}

// A gatedBody tells when the bytes of a request are no longer wanted.
type gatedBody struct {
	r    io.Reader
	once sync.Once
	done chan struct{}
}

func (b *gatedBody) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	if err != nil {
		b.finish()
	}
	return n, err
}

func (b *gatedBody) finish() { b.once.Do(func() { close(b.done) }) }

func isClosed(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) || errors.Is(err, io.ErrClosedPipe) || errors.Is(err, errStreamReset)
}
