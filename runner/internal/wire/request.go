package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// A Request is one message of a client. Its body has size bytes and is read
// from the connection as it is consumed: on a shared connection the next
// request is read only when the body is at its end or the handler returned.
type Request struct {
	ID       string
	Kind     string
	Raw      json.RawMessage // the whole line
	HasBody  bool
	Size     int64
	Body     io.Reader
	Gone     <-chan struct{} // closed when a shared connection's client is done
	IsStream bool            // the request asks for the stream form of its type
	Admitted any             // what the admission of its type left for the handler
}

// IsGone tells whether the client of a shared connection is done.
func (q *Request) IsGone() bool {
	select {
	case <-q.Gone:
		return true
	default:
		return false
	}
}

// Decode reads the request's own fields into v.
func (q *Request) Decode(v any) error {
	if err := json.Unmarshal(q.Raw, v); err != nil {
		return Invalid("%s: %v", q.Kind, err)
	}
	return nil
}

// A Handler answers one small request. It runs on a goroutine of its own.
// A body that is not nil travels behind the reply, which gets "bytes".
type Handler func(q *Request) (reply Fields, body []byte, err error)

// A StreamHandler takes over the connection of its request. It sends the reply
// with s.reply, then stream messages; when it returns the connection closes. An
// error that it returns is sent first, as the reply if there was none yet.
type StreamHandler func(s *Stream, q *Request) error

const MaxTimeout = 100 * 365 * 24 * time.Hour

// Milliseconds is a timeout that a client asks for. One that a duration cannot hold is a hundred years.
func Milliseconds(ms int64) time.Duration {
	if ms > int64(MaxTimeout/time.Millisecond) {
		return MaxTimeout
	}
	return time.Duration(ms) * time.Millisecond
}

// Answer runs one handler and sends what it gives.
func Answer(h Handler, q *Request, out *Writer) {
	defer func() {
		if p := recover(); p != nil {
			out.Fail(q.ID, fmt.Errorf("%s failed: %v", q.Kind, p)) // PID 1 lives on
		}
	}()
	reply, body, err := h(q)
	if err != nil {
		out.Fail(q.ID, err)
		return
	}
	out.Message(q.Kind, q.ID, reply, body)
}

func ServeStream(take StreamHandler, s *Stream, q *Request) {
	defer func() {
		if p := recover(); p != nil {
			s.Out.Fail("", fmt.Errorf("%s failed: %v", q.Kind, p))
		}
	}()
	err := take(s, q)
	if err == nil || isClosed(err) {
		return
	}
	if s.replied {
		s.Out.Fail("", err)
		return
	}
	s.Out.Fail(q.ID, err)
}

// ReadRequest reads one request line. The request is there beside an error as soon as its id is known.
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
