package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
)

// serveMessages answers requests until the client is done or breaks a rule.
// Replies to requests that still run are sent before the connection closes.
func (run *runner) serveMessages(conn carrier, in *wireReader, out *wireWriter) {
	var running sync.WaitGroup
	defer running.Wait()
	gone := make(chan struct{})
	defer close(gone)
	slots := newSlots()
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
		if take, ok := streamHandlers[q.kind]; ok && q.isStream() {
			if shared {
				out.fail(q.id, invalid("%s needs a connection of its own", q.kind))
			} else if err := run.admit(q); err != nil {
				out.fail(q.id, err)
				continue
			} else {
				run.serveStream(take, &stream{id: q.id, kind: q.kind, in: in, out: out, conn: conn}, q)
			}
			return
		}
		if q.size > maxBodyBytes {
			out.fail(q.id, &runnerError{codeBodyTooLarge, "body is larger than 64 MiB", fields{"limit": maxBodyBytes}})
			return
		}
		release, err := slots.take(q.kind)
		if err == nil {
			if err = run.admit(q); err != nil {
				release()
			}
		}
		if err != nil {
			out.fail(q.id, err)
			continue
		}
		// The body is read from the connection by the handler, so the next request waits until it has all of it.
		consumed := make(chan struct{})
		gate := &gatedBody{r: q.body, done: consumed}
		q.body, q.gone = gate, gone
		if q.size == 0 {
			gate.finish()
		}
		running.Add(1)
		go func() {
			defer running.Done()
			run.answer(handlers[q.kind], q, out)
			gate.finish()
			release()
		}()
		<-consumed
	}
}

// admit refuses what has no handler, and does what must happen while the requests of a connection are in order.
func (run *runner) admit(q *request) error {
	if handlers[q.kind] == nil && streamHandlers[q.kind] == nil {
		return invalid("unknown request type %q", q.kind)
	}
	if first, ok := admissions[q.kind]; ok {
		return first(run, q)
	}
	return nil
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
