// Package mux multiplexes streams with flow control over one carrier: a connection, or a device without connections.
// PROTOCOL.md describes the frames.
package mux

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"sync"

	"sandglass/runner/internal/wire"
)

// The kinds of frames.
const (
	Open   = 1
	Data   = 2
	Credit = 3
	End    = 4
	Reset  = 5
)

const (
	HeaderBytes   = 13
	MaxPayload    = 65_536
	InitialCredit = 262_144
	maxCredit     = 16 << 20
	MaxStreams    = 1024
)

var errDamaged = errors.New("payload of a frame does not match its check")

// A session is the runner's side of a carrier. One goroutine reads frames, and each stream has a goroutine that
// serves it.
type session struct {
	writeMu sync.Mutex // held during one frame
	w       io.Writer

	mu      sync.Mutex // guards what follows and the state of every stream
	streams map[uint32]*stream
	highest uint32
}

// Serve serves the streams of a carrier until the carrier ends or the client violates the protocol. Then it closes
// the carrier.
func Serve(r *bufio.Reader, w io.WriteCloser, serve func(wire.Conn, *wire.Reader, *wire.Writer)) error {
	m := &session{w: w, streams: map[uint32]*stream{}}
	err := m.read(r, serve)
	w.Close()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.streams {
		s.reset()
	}
	return err
}

func (m *session) read(r *bufio.Reader, serve func(wire.Conn, *wire.Reader, *wire.Writer)) error {
	var header [HeaderBytes]byte
	for {
		if _, err := io.ReadFull(r, header[:]); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		kind, number, length := header[0], binary.BigEndian.Uint32(header[1:5]), binary.BigEndian.Uint32(header[5:9])
		check := binary.BigEndian.Uint32(header[9:13])
		if length > MaxPayload {
			return fmt.Errorf("frame of %d bytes", length)
		}
		var err error
		switch {
		case kind == Open && length == 0:
			err = m.open(number, serve)
		case kind == Data && length > 0:
			err = m.data(number, int(length), check, r)
		case kind == Credit && length == 4:
			var payload [4]byte
			if _, err := io.ReadFull(r, payload[:]); err != nil {
				return err
			}
			if crc32.ChecksumIEEE(payload[:]) != check {
				return errDamaged
			}
			err = m.withStream(number, func(s *stream) error { return s.addCredit(binary.BigEndian.Uint32(payload[:])) })
		case kind == End && length == 0:
			err = m.withStream(number, (*stream).receiveEnd)
		case kind == Reset && length == 0:
			err = m.withStream(number, (*stream).receiveReset)
		default:
			err = fmt.Errorf("frame of kind %d with %d bytes", kind, length)
		}
		if err != nil {
			return err
		}
	}
}

func (m *session) open(number uint32, serve func(wire.Conn, *wire.Reader, *wire.Writer)) error {
	if number%2 == 0 || number <= m.highest {
		return fmt.Errorf("stream number %d after %d", number, m.highest)
	}
	m.mu.Lock()
	m.highest = number
	full := len(m.streams) >= MaxStreams
	s := &stream{m: m, number: number, credit: InitialCredit, window: InitialCredit}
	s.changed = sync.NewCond(&m.mu)
	if !full {
		m.streams[number] = s
	}
	m.mu.Unlock()
	if full {
		return m.send(Reset, number, nil)
	}
	go func() {
		defer s.Close()
		serve(s, wire.NewReader(s), wire.NewWriter(s))
	}()
	return nil
}

// data reads the payload after checking that it is within the credit of the stream.
func (m *session) data(number uint32, length int, check uint32, r *bufio.Reader) error {
	m.mu.Lock()
	s := m.streams[number]
	known := number <= m.highest
	m.mu.Unlock()
	if !known {
		return fmt.Errorf("data for stream %d that was never opened", number)
	}
	if s == nil {
		_, err := r.Discard(length)
		return err
	}
	return s.receive(length, check, r)
}

// withStream calls use with the stream of a frame. Frames for a stream that is gone are dropped.
func (m *session) withStream(number uint32, use func(*stream) error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if number > m.highest {
		return fmt.Errorf("frame for stream %d that was never opened", number)
	}
	s := m.streams[number]
	if s == nil {
		return nil
	}
	return use(s)
}

// largeFrames has buffers for frames with a large payload.
var largeFrames = sync.Pool{New: func() any { return new([HeaderBytes + MaxPayload]byte) }}

const largePayload = 4096

func (m *session) send(kind byte, number uint32, payload []byte) error {
	var frame []byte
	if len(payload) < largePayload {
		frame = EncodeFrame(kind, number, payload)
	} else {
		buffer := largeFrames.Get().(*[HeaderBytes + MaxPayload]byte)
		defer largeFrames.Put(buffer)
		frame = encodeInto(buffer[:HeaderBytes], kind, number, payload)
	}
	m.writeMu.Lock()
	defer m.writeMu.Unlock()
	_, err := m.w.Write(frame)
	return err
}

// EncodeFrame returns a frame with its header.
func EncodeFrame(kind byte, number uint32, payload []byte) []byte {
	return encodeInto(make([]byte, HeaderBytes, HeaderBytes+len(payload)), kind, number, payload)
}

// encodeInto writes the header to frame and appends the payload.
func encodeInto(frame []byte, kind byte, number uint32, payload []byte) []byte {
	frame[0] = kind
	binary.BigEndian.PutUint32(frame[1:5], number)
	binary.BigEndian.PutUint32(frame[5:9], uint32(len(payload)))
	binary.BigEndian.PutUint32(frame[9:13], crc32.ChecksumIEEE(payload))
	return append(frame, payload...)
}
