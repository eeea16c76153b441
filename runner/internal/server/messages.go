package server

import (
	"errors"
	"io"
	"sync"

	"sandglass/runner/internal/wire"
)

// serveMessages answers requests until the client closes or violates the protocol. It sends the replies to running
// requests before it returns.
func (e *endpoint) serveMessages(conn wire.Conn, in *wire.Reader, out *wire.Writer) {
	var running sync.WaitGroup
	defer running.Wait()
	gone := make(chan struct{})
	defer close(gone)
	limits := newSemaphores()
	for shared := false; ; shared = true {
		q, err := wire.ReadRequest(in)
		if err != nil {
			if !errors.Is(err, io.EOF) {
				id := ""
				if q != nil {
					id = q.ID
				}
				out.Fail(id, err)
			}
			return
		}
		if stream := e.table.streamFor(q); stream != nil {
			if shared {
				out.Fail(q.ID, wire.Invalid("%s needs a connection of its own", q.Kind))
			} else if err := e.admit(q); err != nil {
				out.Fail(q.ID, err)
				continue
			} else {
				wire.ServeStream(stream, &wire.Stream{ID: q.ID, Kind: q.Kind, In: in, Out: out, Conn: conn}, q)
			}
			return
		}
		if q.Size > wire.MaxBodyBytes {
			out.Fail(q.ID, wire.NewError(wire.CodeBodyTooLarge, "body is larger than 64 MiB", wire.Fields{"limit": wire.MaxBodyBytes}))
			return
		}
		release, err := limits.acquire(q.Kind)
		if err == nil {
			if err = e.admit(q); err != nil {
				release()
			}
		}
		if err != nil {
			out.Fail(q.ID, err)
			continue
		}
		// The handler reads the body from the connection, so the next request is read after that.
		consumed := make(chan struct{})
		gate := &gatedBody{r: q.Body, done: consumed}
		q.Body, q.Gone = gate, gone
		if q.Size == 0 {
			gate.finish()
		}
		running.Add(1)
		go func() {
			defer running.Done()
			wire.Answer(e.table.handlers[q.Kind], q, out)
			gate.finish()
			release()
		}()
		<-consumed
	}
}

// admit rejects unknown types and runs the admission of the type, while the requests of a connection are still in
// order.
func (e *endpoint) admit(q *wire.Request) error {
	if e.table.handlers[q.Kind] == nil && e.table.streams[q.Kind] == nil {
		return wire.Invalid("unknown request type %q", q.Kind)
	}
	if first, ok := e.table.admissions[q.Kind]; ok {
		return first(q)
	}
	return nil
}

// A gatedBody signals when the body of a request was read or is no longer needed.
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
