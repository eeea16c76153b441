package server

import (
	"errors"
	"io"
	"sync"

	"sandglass/runner/internal/wire"
)

// serveMessages answers requests until the client is done or breaks a rule.
// Replies to requests that still run are sent before the connection closes.
func (run *Server) serveMessages(conn wire.Conn, in *wire.Reader, out *wire.Writer) {
	var running sync.WaitGroup
	defer running.Wait()
	gone := make(chan struct{})
	defer close(gone)
	slots := newSemaphores()
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
		if take := run.table.streamFor(q); take != nil {
			if shared {
				out.Fail(q.ID, wire.Invalid("%s needs a connection of its own", q.Kind))
			} else if err := run.admit(q); err != nil {
				out.Fail(q.ID, err)
				continue
			} else {
				wire.ServeStream(take, &wire.Stream{ID: q.ID, Kind: q.Kind, In: in, Out: out, Conn: conn}, q)
			}
			return
		}
		if q.Size > wire.MaxBodyBytes {
			out.Fail(q.ID, wire.NewError(wire.CodeBodyTooLarge, "body is larger than 64 MiB", wire.Fields{"limit": wire.MaxBodyBytes}))
			return
		}
		release, err := slots.acquire(q.Kind)
		if err == nil {
			if err = run.admit(q); err != nil {
				release()
			}
		}
		if err != nil {
			out.Fail(q.ID, err)
			continue
		}
		// The body is read from the connection by the handler, so the next request waits until it has all of it.
		consumed := make(chan struct{})
		gate := &gatedBody{r: q.Body, done: consumed}
		q.Body, q.Gone = gate, gone
		if q.Size == 0 {
			gate.finish()
		}
		running.Add(1)
		go func() {
			defer running.Done()
			wire.Answer(run.table.handlers[q.Kind], q, out)
			gate.finish()
			release()
		}()
		<-consumed
	}
}

// admit refuses what has no handler, and does what must happen while the requests of a connection are in order.
func (run *Server) admit(q *wire.Request) error {
	if run.table.handlers[q.Kind] == nil && run.table.streams[q.Kind] == nil {
		return wire.Invalid("unknown request type %q", q.Kind)
	}
	if first, ok := run.table.admissions[q.Kind]; ok {
		return first(q)
	}
	return nil
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
