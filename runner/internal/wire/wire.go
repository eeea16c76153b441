// Package wire defines the messages of the runner protocol: their framing, errors, requests and streams. PROTOCOL.md
// describes them.
package wire

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
)

// ErrReset is returned by a stream of the multiplexer that the client has reset.
var ErrReset = errors.New("stream was reset")

const (
	MaxLineBytes = 8 << 20
	MaxBodyBytes = 64 << 20 // limit for one message on a shared connection
	readBuffer   = 4096
	CopyBuffer   = 256 << 10 // a file body is copied in pieces of this size
)

var ErrLineTooLong = errors.New("line is longer than 8 MiB")

// A Conn is a byte stream to a client: a socket, or a stream of the multiplexer.
type Conn interface {
	io.ReadWriteCloser
	CloseWrite() error
}

// A Reader reads lines and bodies from a byte stream. Line skips a body that is still unread.
type Reader struct {
	Buf     *bufio.Reader
	pending *io.LimitedReader
}

func NewReader(r io.Reader) *Reader {
	return &Reader{Buf: bufio.NewReaderSize(r, readBuffer)}
}

// Line returns the next line without its newline. The caller owns the bytes.
func (w *Reader) Line() ([]byte, error) {
	if w.pending != nil && w.pending.N > 0 {
		if _, err := io.Copy(io.Discard, w.pending); err != nil {
			return nil, err
		}
		if w.pending.N > 0 {
			return nil, io.ErrUnexpectedEOF
		}
	}
	w.pending = nil
	var line []byte
	for {
		part, err := w.Buf.ReadSlice('\n')
		if len(line)+len(part) > MaxLineBytes+1 {
			return nil, ErrLineTooLong
		}
		line = append(line, part...)
		switch {
		case err == nil:
			return line[:len(line)-1], nil
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF) && len(line) > 0:
			return nil, io.ErrUnexpectedEOF
		default:
			return nil, err
		}
	}
}

// Body returns the n bytes that follow the line just read.
func (w *Reader) Body(n int64) io.Reader {
	w.pending = &io.LimitedReader{R: w.Buf, N: n}
	return &wholeBody{w.pending}
}

// A wholeBody returns an error if the byte stream ends inside the body, so that a part of a file is never taken for
// the whole.
type wholeBody struct{ limited *io.LimitedReader }

func (b *wholeBody) Read(p []byte) (int, error) {
	n, err := b.limited.Read(p)
	if err == io.EOF && b.limited.N > 0 {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// A Writer sends whole messages from any goroutine.
type Writer struct {
	mu sync.Mutex // held while one message and its body are written
	w  io.Writer
}

func NewWriter(w io.Writer) *Writer { return &Writer{w: w} }

// Message sends one message. An empty id is left out. A body that is not nil follows the message.
func (w *Writer) Message(kind, id string, f Fields, body []byte) error {
	size := int64(-1)
	if body != nil {
		size = int64(len(body))
	}
	line, err := EncodeLine(kind, id, f, size)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(body) <= 16<<10 {
		_, err = w.w.Write(append(line, body...))
		return err
	}
	if _, err := w.w.Write(line); err != nil {
		return err
	}
	_, err = w.w.Write(body)
	return err
}

// messageFrom sends one message and exactly n bytes of r. If r has fewer, the framing is broken and the caller must
// close the connection.
func (w *Writer) messageFrom(kind, id string, f Fields, n int64, r io.Reader) error {
	line, err := EncodeLine(kind, id, f, n)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, err := w.w.Write(line); err != nil {
		return err
	}
	size := n
	if size > CopyBuffer {
		size = CopyBuffer
	}
	copied, err := io.CopyBuffer(struct{ io.Writer }{w.w}, io.LimitReader(r, n), make([]byte, size+1))
	if err == nil && copied < n {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// Lines sends messages that are encoded already, each with its newline.
func (w *Writer) Lines(lines []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, err := w.w.Write(lines)
	return err
}

// Fail sends an error message.
func (w *Writer) Fail(id string, err error) error {
	return w.Message("error", id, ErrorFields(err), nil)
}

// EncodeLine encodes a message as a line. A negative size means that it has no body.
func EncodeLine(kind, id string, f Fields, size int64) ([]byte, error) {
	head := Fields{"type": kind}
	for k, v := range f {
		head[k] = v
	}
	if id != "" {
		head["id"] = id
	}
	if size >= 0 {
		head["bytes"] = size
	}
	line, err := json.Marshal(head)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", kind, err)
	}
	return append(line, '\n'), nil
}
