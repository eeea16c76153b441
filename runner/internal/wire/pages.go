package wire

import (
	"bytes"
	"encoding/json"
	"errors"
)

const (
	PageBytes    = 128 << 10 // a page is sent when it has this many bytes
	OnePageBytes = 4 << 20   // limit of the single page of a request without a stream
)

// ErrFull is returned when the list has reached its limit.
var ErrFull = errors.New("the list is full")

// Pages collect the items of a list into JSON arrays of bounded size. On a stream each page is sent when it is full.
// Without a stream there is one page, and items beyond its limit are left out.
type Pages struct {
	Stream    *Stream // nil: a single page
	Limit     int     // items of all pages together
	Count     int
	Truncated bool
	buf       bytes.Buffer
}

// Add returns ErrFull when the limit is reached, or the error of sending. On a stream it may wait for the client.
func (p *Pages) Add(item any) error {
	text, err := json.Marshal(item)
	if err != nil {
		return err
	}
	if p.Count >= p.Limit || p.Stream == nil && p.buf.Len()+len(text) > OnePageBytes {
		p.Truncated = true
		return ErrFull
	}
	separator := byte(',')
	if p.buf.Len() == 0 {
		separator = '['
	}
	p.buf.WriteByte(separator)
	p.buf.Write(text)
	p.Count++
	if p.Stream != nil && p.buf.Len() >= PageBytes {
		return p.flush()
	}
	return nil
}

func (p *Pages) flush() error {
	err := p.Stream.Send("page", nil, p.Page())
	p.buf.Reset()
	return err
}

// Page returns the page collected so far.
func (p *Pages) Page() []byte {
	if p.buf.Len() == 0 {
		return []byte("[]")
	}
	p.buf.WriteByte(']')
	return p.buf.Bytes()
}

// Finish sends the last page and the done message.
func (p *Pages) Finish() error {
	if p.buf.Len() > 0 {
		if err := p.flush(); err != nil {
			return err
		}
	}
	return p.Stream.Send("done", Fields{"truncated": p.Truncated}, nil)
}
