package wire

import (
	"io"
	"time"
)

const drainTimeout = 10 * time.Second

// A ChunkReader joins the bodies of the chunk messages of a stream, up to the end message.
type ChunkReader struct {
	Stream *Stream
	body   io.Reader
	isDone bool
	isGone bool // the client closed, or violated the framing
}

func (c *ChunkReader) Read(p []byte) (int, error) {
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
		m, err := c.Stream.Next()
		if err != nil {
			c.isGone = CodeOf(err) == ""
			return 0, unexpectedEOF(err)
		}
		switch m.Type {
		case "chunk":
			c.body = m.Body
		case "end":
			c.isDone = true
		default:
			return 0, Invalid("expected chunk or end, not %q", m.Type)
		}
	}
	return 0, io.EOF
}

// Fail sends err to the client and reads what the client still sends, until it closes. Closing while the client
// writes would destroy the error on its way.
func (c *ChunkReader) Fail(err error) error {
	if c.isGone {
		return nil
	}
	if err := c.Stream.Out.Fail("", err); err != nil {
		return err
	}
	timer := time.AfterFunc(drainTimeout, func() { c.Stream.Conn.Close() })
	defer timer.Stop()
	for {
		if _, err := c.Stream.Next(); err != nil {
			return nil
		}
	}
}

func unexpectedEOF(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
