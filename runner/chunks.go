package main

import (
	"io"
	"time"
)

const drainTimeout = 10 * time.Second

// A chunkReader joins the bodies of a stream's chunk messages, up to the end message.
type chunkReader struct {
	stream *stream
	body   io.Reader
	isDone bool
	isGone bool // the client closed, or broke the protocol beyond repair
}

func (c *chunkReader) Read(p []byte) (int, error) {
	for !c.isDone {
		if c.body != nil {
			n, err := c.body.Read(p)
			if err != io.EOF {
				c.isGone = err != nil
				return n, err
			}
			c.body = nil
			if n > 0 {
				return n, nil
			}
		}
		m, err := c.stream.next()
		if err != nil {
			c.isGone = codeOrNone(err) == ""
			return 0, unexpected(err)
		}
		switch m.Type {
		case "chunk":
			c.body = m.body
		case "end":
			c.isDone = true
		default:
			return 0, invalid("expected chunk or end, not %q", m.Type)
		}
	}
	return 0, io.EOF
}

// fail tells the client of err and takes what it still sends: closing on a
// client that writes would destroy the message on its way.
func (c *chunkReader) fail(err error) error {
	if c.isGone {
		return nil
	}
	if err := c.stream.out.fail("", err); err != nil {
		return err
	}
	timer := time.AfterFunc(drainTimeout, func() { c.stream.conn.Close() })
	defer timer.Stop()
	for {
		if _, err := c.stream.next(); err != nil {
			return nil
		}
	}
}

func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
