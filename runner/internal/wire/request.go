package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// A Request is one message of a client. Its body is read from the connection as the handler consumes it: on a shared
// connection the next request is read when the body is at its end or the handler has returned.
type Request struct {
	ID       string
	Kind     string
	Raw      json.RawMessage // the whole line
	HasBody  bool
	Size     int64
	Body     io.Reader
	Gone     <-chan struct{} // closed when the client of a shared connection has closed
	IsStream bool            // the client asks for the stream form of this type
	Admitted any             // set by the admission of this type for its handler
}

// IsGone tells whether the client of a shared connection has closed.
func (q *Request) IsGone() bool {
	select {
	case <-q.Gone:
		return true
	default:
		return false
	}
}

// Decode reads the fields of the request into v.
func (q *Request) Decode(v any) error {
	if err := json.Unmarshal(q.Raw, v); err != nil {
		return Invalid("%s: %v", q.Kind, err)
	}
	return nil
}

// A Handler answers one request. It runs on a goroutine of its own. A body that is not nil is sent after the reply,
// which then has the field bytes.
type Handler func(q *Request) (reply Fields, body []byte, err error)

// A StreamHandler takes over the connection of its request. It sends the reply with Stream.Reply, then stream
// messages. When it returns, the connection closes. An error that it returns is sent before that; it is the reply if
// none was sent.
type StreamHandler func(s *Stream, q *Request) error

// Answer runs a handler and sends its reply or its error.
func Answer(h Handler, q *Request, out *Writer) {
	defer func() {
		if p := recover(); p != nil {
			out.Fail(q.ID, fmt.Errorf("%s failed: %v", q.Kind, p)) // a panic must not end PID 1
		}
	}()
	reply, body, err := h(q)
	if err != nil {
		out.Fail(q.ID, err)
		return
	}
	out.Message(q.Kind, q.ID, reply, body)
}

// ServeStream runs a stream handler and sends its error, unless the connection is closed.
func ServeStream(h StreamHandler, s *Stream, q *Request) {
	defer func() {
		if p := recover(); p != nil {
			s.Out.Fail("", fmt.Errorf("%s failed: %v", q.Kind, p))
		}
	}()
	err := h(s, q)
	if err == nil || isClosed(err) {
		return
	}
	if s.replied {
		s.Out.Fail("", err)
		return
	}
	s.Out.Fail(q.ID, err)
}

// ReadRequest reads one request line. The request is returned together with an error if its id is known.
func ReadRequest(in *Reader) (*Request, error) {
	line, err := in.Line()
	if err != nil {
		if errors.Is(err, ErrLineTooLong) {
			return nil, Invalid("%v", err)
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
		return nil, Invalid("request is not a JSON object: %v", err)
	}
	if len(head.ID) < 1 || len(head.ID) > 64 {
		return nil, Invalid("id must have 1 to 64 characters")
	}
	q := &Request{ID: head.ID, Kind: head.Type, Raw: line, IsStream: head.Stream}
	if head.Bytes != nil {
		if *head.Bytes < 0 {
			return q, Invalid("bytes must not be negative")
		}
		q.HasBody, q.Size = true, *head.Bytes
	}
	q.Body = in.Body(q.Size)
	return q, nil
}

func isClosed(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) || errors.Is(err, io.ErrClosedPipe) || errors.Is(err, ErrReset)
}

// MaxTimeout is the longest timeout; a time.Duration cannot hold every number of milliseconds.
const MaxTimeout = 100 * 365 * 24 * time.Hour

// Milliseconds converts a timeout that a client asks for, limited to MaxTimeout.
func Milliseconds(ms int64) time.Duration {
	if ms > int64(MaxTimeout/time.Millisecond) {
		return MaxTimeout
	}
	return time.Duration(ms) * time.Millisecond
}
