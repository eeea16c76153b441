package wire

import (
	"bytes"
	"encoding/json"
	"errors"
)

const (
	PageBytes    = 128 << 10 // a page goes out when it has this much
	OnePageBytes = 4 << 20   // of the one page of a request that is no stream
)

var ErrFull = errors.New("the list is full")

// Pages gather the items of a list into JSON arrays of bounded size. On a stream each goes out when it is full; without one
// there is one page, and what does not fit is left out.
type Pages struct {
	Stream    *Stream // nil: one page
	Limit     int     // items of all pages together
	Count     int
	Truncated bool
	buf       bytes.Buffer
}

// Add gives errEnough when there is no room, or the error of a client that is gone. On a stream it may wait for the client.
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

// Page is the page gathered so far.
func (p *Pages) Page() []byte {
	if p.buf.Len() == 0 {
		return []byte("[]")
	}
	p.buf.WriteByte(']')
	return p.buf.Bytes()
}

// Finish sends what is left and the end.
func (p *Pages) Finish() error {
	if p.buf.Len() > 0 {
		if err := p.flush(); err != nil {
			return err
		}
	}
	return p.Stream.Send("done", Fields{"truncated": p.Truncated}, nil)
}
