package wire

import (
	"encoding/json"
	"io"
	"syscall"

	"sandglass/runner/internal/sys"
)

// A Stream is a connection that one request has taken over. Next belongs to one goroutine; Reply and Send may be
// called from any.
type Stream struct {
	ID      string
	Kind    string
	In      *Reader
	Out     *Writer
	Conn    Conn
	replied bool
}

// A Message is sent by a client on a stream after its request. The body must be read to its end before the next
// message.
type Message struct {
	Type  string `json:"type"`
	Bytes *int64 `json:"bytes"`
	Raw   json.RawMessage
	Body  io.Reader // empty if the message has no bytes
}

func (m *Message) Decode(v any) error {
	if err := json.Unmarshal(m.Raw, v); err != nil {
		return Invalid("%s: %v", m.Type, err)
	}
	return nil
}

// Reply sends the reply to the request of the stream.
func (s *Stream) Reply(f Fields) error {
	s.replied = true
	return s.Out.Message(s.Kind, s.ID, f, nil)
}

// ReplyWithBody sends the reply, followed by exactly n bytes of r.
func (s *Stream) ReplyWithBody(f Fields, n int64, r io.Reader) error {
	s.replied = true
	return s.Out.messageFrom(s.Kind, s.ID, f, n, r)
}

// Send sends a stream message. A body that is not nil follows it.
func (s *Stream) Send(kind string, f Fields, body []byte) error {
	return s.Out.Message(kind, "", f, body)
}

// Next reads the client's next message. It returns io.EOF when the client has closed.
func (s *Stream) Next() (*Message, error) {
	line, err := s.In.Line()
	if err != nil {
		return nil, err
	}
	m := &Message{Raw: line}
	if err := json.Unmarshal(line, m); err != nil {
		return nil, Invalid("message is not a JSON object: %v", err)
	}
	size := int64(0)
	if m.Bytes != nil {
		size = *m.Bytes
	}
	if size < 0 {
		return nil, Invalid("bytes must not be negative")
	}
	m.Body = s.In.Body(size)
	return m, nil
}

// IsGone tells whether the client has closed its side, even if some of its bytes are still unread.
func (s *Stream) IsGone() bool {
	switch conn := s.Conn.(type) {
	case interface{ IsGone() bool }:
		return conn.IsGone()
	case syscall.Conn:
		raw, err := conn.SyscallConn()
		if err != nil {
			return true
		}
		gone := false
		err = raw.Control(func(fd uintptr) { gone = sys.HasHungUp(int32(fd)) })
		return gone || err != nil
	}
	return false
}
