package main

import (
	"encoding/json"
	"io"
)

// A stream is a connection that one request has taken over.
// next belongs to one goroutine; reply and send may be called from any.
type stream struct {
	id      string
	kind    string
	in      *wireReader
	out     *wireWriter
	conn    carrier
	replied bool
}

// A message is what a client sends in a stream after its request. The body
// must be read to its end before the next message.
type message struct {
	Type  string `json:"type"`
	Bytes *int64 `json:"bytes"`
	raw   json.RawMessage
	body  io.Reader // empty when there are no bytes
}

func (m *message) decode(v any) error {
	if err := json.Unmarshal(m.raw, v); err != nil {
		return invalid("%s: %v", m.Type, err)
	}
	return nil
}

// reply sends the first message back.
func (s *stream) reply(f fields) error {
	s.replied = true
	return s.out.message(s.kind, s.id, f, nil)
}

// replyWithBody sends the first message back, followed by exactly n bytes of r.
func (s *stream) replyWithBody(f fields, n int64, r io.Reader) error {
	s.replied = true
	return s.out.messageFrom(s.kind, s.id, f, n, r)
}

// send sends a stream message; a body that is not nil travels behind it.
func (s *stream) send(kind string, f fields, body []byte) error {
	return s.out.message(kind, "", f, body)
}

// next reads the client's next message; io.EOF means that the client is done.
func (s *stream) next() (*message, error) {
	line, err := s.in.line()
	if err != nil {
		return nil, err
	}
	m := &message{raw: line}
	if err := json.Unmarshal(line, m); err != nil {
		return nil, invalid("message is not a JSON object: %v", err)
	}
	size := int64(0)
	if m.Bytes != nil {
		size = *m.Bytes
	}
	if size < 0 {
		return nil, invalid("bytes must not be negative")
	}
	m.body = s.in.body(size)
	return m, nil
}
