package main

import (
	"bytes"
	"encoding/json"
	"errors"
)

const (
	pageBytes    = 128 << 10 // a page goes out when it has this much
	onePageBytes = 4 << 20   // of the one page of a request that is no stream
)

var errEnough = errors.New("the list is full")

// pages gather the items of a list into JSON arrays of bounded size. On a stream each goes out when it is full; without one
// there is one page, and what does not fit is left out.
type pages struct {
	out       *stream // nil: one page
	limit     int     // items of all pages together
	count     int
	truncated bool
	buf       bytes.Buffer
}

// add gives errEnough when there is no room, or the error of a client that is gone. On a stream it may wait for the client.
func (p *pages) add(item any) error {
	text, err := json.Marshal(item)
	if err != nil {
		return err
	}
	if p.count >= p.limit || p.out == nil && p.buf.Len()+len(text) > onePageBytes {
		p.truncated = true
		return errEnough
	}
	separator := byte(',')
	if p.buf.Len() == 0 {
		separator = '['
	}
	p.buf.WriteByte(separator)
	p.buf.Write(text)
	p.count++
	if p.out != nil && p.buf.Len() >= pageBytes {
		return p.flush()
	}
	return nil
}

func (p *pages) flush() error {
	err := p.out.send("page", nil, p.one())
	p.buf.Reset()
	return err
}

// one is the page gathered so far.
func (p *pages) one() []byte {
	if p.buf.Len() == 0 {
		return []byte("[]")
	}
	p.buf.WriteByte(']')
	return p.buf.Bytes()
}

// finish sends what is left and the end.
func (p *pages) finish() error {
	if p.buf.Len() > 0 {
		if err := p.flush(); err != nil {
			return err
		}
	}
	return p.out.send("done", fields{"truncated": p.truncated}, nil)
}
