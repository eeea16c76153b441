package mux

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"sync"

	"sandglass/runner/internal/wire"
)

// A stream is one stream of a carrier. Read and Write may be called from different goroutines, each from one at a
// time. m.mu guards the fields.
type stream struct {
	m       *session
	number  uint32
	changed *sync.Cond

	credit int64 // bytes that may still be sent to the client
	window int64 // bytes that the client may still send
	taken  int64 // bytes consumed for which no credit was granted yet

	in       []byte // received but not yet read
	inEnded  bool
	outEnded bool
	isClosed bool // the runner reads no more: drop what arrives
	isReset  bool // the client reset the stream, or the carrier has ended
}

func (s *stream) Read(p []byte) (int, error) {
	s.m.mu.Lock()
	if err := s.await(); err != nil {
		s.m.mu.Unlock()
		return 0, err
	}
	n := copy(p, s.in)
	s.in = s.in[n:]
	if len(s.in) == 0 {
		s.in = nil // an idle stream needs no buffer
	}
	s.m.mu.Unlock()
	return n, s.consume(n)
}

// WriteTo passes on what the client sends, as it arrives. Unlike a loop of Read and Write, it needs no buffer.
func (s *stream) WriteTo(w io.Writer) (int64, error) {
	for total := int64(0); ; {
		s.m.mu.Lock()
		err := s.await()
		chunk := s.in
		s.in = nil
		s.m.mu.Unlock()
		if err == io.EOF {
			return total, nil
		}
		if err != nil {
			return total, err
		}
		n, err := w.Write(chunk)
		total += int64(n)
		if err != nil {
			return total, err
		}
		if err := s.consume(n); err != nil {
			return total, err
		}
	}
}

// await waits until there are bytes to read, or returns why there will be none. The caller holds m.mu.
func (s *stream) await() error {
	for len(s.in) == 0 && !s.inEnded && !s.isReset && !s.isClosed {
		s.changed.Wait()
	}
	switch {
	case s.isClosed:
		return io.ErrClosedPipe
	case len(s.in) > 0:
		return nil
	case s.inEnded:
		return io.EOF
	}
	return wire.ErrReset
}

// consume counts bytes that were read, and grants the client credit for them when they are many.
func (s *stream) consume(n int) error {
	s.m.mu.Lock()
	s.taken += int64(n)
	grant := int64(0)
	if s.taken >= InitialCredit/4 && !s.inEnded {
		grant, s.taken = s.taken, 0
		s.window += grant
	}
	s.m.mu.Unlock()
	if grant == 0 {
		return nil
	}
	var payload [4]byte
	binary.BigEndian.PutUint32(payload[:], uint32(grant))
	return s.m.send(Credit, s.number, payload[:])
}

// Write sends p in frames and waits for credit. Frames of other streams may come between.
func (s *stream) Write(p []byte) (int, error) {
	sent := 0
	for sent < len(p) {
		s.m.mu.Lock()
		for s.credit == 0 && !s.isReset && !s.outEnded {
			s.changed.Wait()
		}
		if s.isReset || s.outEnded {
			broken := s.isReset
			s.m.mu.Unlock()
			if broken {
				return sent, wire.ErrReset
			}
			return sent, io.ErrClosedPipe
		}
		n := len(p) - sent
		if n > MaxPayload {
			n = MaxPayload
		}
		if int64(n) > s.credit {
			n = int(s.credit)
		}
		s.credit -= int64(n)
		s.m.mu.Unlock()
		if err := s.m.send(Data, s.number, p[sent:sent+n]); err != nil {
			return sent, err
		}
		sent += n
	}
	return sent, nil
}

// CloseWrite sends END.
func (s *stream) CloseWrite() error {
	s.m.mu.Lock()
	already := s.outEnded || s.isReset
	s.outEnded = true
	s.removeIfDone()
	s.changed.Broadcast()
	s.m.mu.Unlock()
	if already {
		return nil
	}
	return s.m.send(End, s.number, nil)
}

// Close ends the runner's side. Data that the client still sends is dropped without granting credit. The number is
// free again when the client ends or resets its side.
func (s *stream) Close() error {
	s.m.mu.Lock()
	s.isClosed, s.in = true, nil
	s.m.mu.Unlock()
	return s.CloseWrite()
}

// receive reads the payload of a DATA frame. It passes nothing on before the payload is complete and checked: on a
// device the rest may be bytes of the next client.
func (s *stream) receive(length int, check uint32, r *bufio.Reader) error {
	s.m.mu.Lock()
	if s.inEnded {
		s.m.mu.Unlock()
		return fmt.Errorf("data after the end of stream %d", s.number)
	}
	if int64(length) > s.window {
		s.m.mu.Unlock()
		return fmt.Errorf("stream %d exceeds its credit", s.number)
	}
	s.window -= int64(length)
	s.m.mu.Unlock()
	payload := make([]byte, length)
	if _, err := io.ReadFull(r, payload); err != nil {
		return err
	}
	if crc32.ChecksumIEEE(payload) != check {
		return errDamaged
	}
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	if !s.isClosed && !s.isReset {
		if s.in == nil {
			s.in = payload
		} else {
			s.in = append(s.in, payload...)
		}
		s.changed.Broadcast()
	}
	return nil
}

func (s *stream) addCredit(n uint32) error {
	if s.credit+int64(n) > maxCredit {
		return fmt.Errorf("stream %d was given more than 16 MiB of credit", s.number)
	}
	s.credit += int64(n)
	s.changed.Broadcast()
	return nil
}

func (s *stream) receiveEnd() error {
	if s.inEnded {
		return fmt.Errorf("stream %d ended twice", s.number)
	}
	s.inEnded = true
	s.removeIfDone()
	s.changed.Broadcast()
	return nil
}

func (s *stream) receiveReset() error {
	delete(s.m.streams, s.number)
	s.reset()
	return nil
}

// reset fails the calls that wait on the stream. A client that has sent END before may still have its bytes read. The
// caller holds m.mu.
func (s *stream) reset() {
	s.isReset = true
	if !s.inEnded {
		s.in = nil
	}
	s.changed.Broadcast()
}

// Reset ends the stream in both directions and tells the client that it has not ended in order.
func (s *stream) Reset() error {
	s.m.mu.Lock()
	_, isOpen := s.m.streams[s.number]
	delete(s.m.streams, s.number)
	s.reset()
	s.m.mu.Unlock()
	if !isOpen {
		return nil
	}
	return s.m.send(Reset, s.number, nil)
}

// AwaitGone waits until the stream has ended in both directions or was reset or closed.
func (s *stream) AwaitGone() {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	for !(s.inEnded && s.outEnded) && !s.isReset && !s.isClosed {
		s.changed.Wait()
	}
}

func (s *stream) removeIfDone() {
	if s.inEnded && s.outEnded {
		delete(s.m.streams, s.number)
	}
}

// IsGone tells whether the client has ended or reset the stream, even if some of its bytes are still unread.
func (s *stream) IsGone() bool {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	return s.inEnded || s.isReset || s.isClosed
}
