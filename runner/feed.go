package main

import (
	"errors"
	"io"
	"os"
	"syscall"
	"time"
	"unsafe"
)

const (
	fullCheck = 100 * time.Millisecond // between looks at whether the client is still there
	goneGrace = 2 * time.Second        // for what a client sent before it went
)

var errClientGone = errors.New("the client is gone")

// feed writes p to a terminal or pipe of the sandbox. While that is full it waits, but for a client that has gone only as
// long as something is taken now and then. Everything that writes to the file does it here: the deadline is the file's.
func feed(file *os.File, p []byte, isGone func() bool) error {
	for taken := time.Now(); ; {
		file.SetWriteDeadline(time.Now().Add(fullCheck))
		n, err := file.Write(p)
		if !os.IsTimeout(err) {
			return err
		}
		if p = p[n:]; n > 0 {
			taken = time.Now()
		}
		if isGone() && time.Since(taken) > goneGrace {
			return errClientGone
		}
	}
}

// feedFrom passes a message's bytes to write, piece by piece. What write does not want any more is dropped: that the
// program has ended is told elsewhere.
func feedFrom(body io.Reader, write func([]byte) error) error {
	buf := make([]byte, 16<<10)
	for {
		n, err := body.Read(buf)
		if n > 0 && errors.Is(write(buf[:n]), errClientGone) {
			return errClientGone
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// isGone tells whether the client has closed its side, even while some of what it sent has not been read.
func (s *stream) isGone() bool {
	switch conn := s.conn.(type) {
	case *muxStream:
		return conn.isGone()
	case syscall.Conn:
		raw, err := conn.SyscallConn()
		if err != nil {
			return true
		}
		gone := false
		err = raw.Control(func(fd uintptr) { gone = hasHungUp(int32(fd)) })
		return gone || err != nil
	}
	return false
}

func (s *muxStream) isGone() bool {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	return s.inEnded || s.brokenOff || s.isClosed
}

// hasHungUp asks the kernel whether the other side of a socket sends no more.
func hasHungUp(fd int32) bool {
	const peerHungUp, hungUp, failed = 0x2000, 0x10, 0x8 // POLLRDHUP, POLLHUP, POLLERR
	poll := struct {
		fd              int32
		events, revents int16
	}{fd: fd, events: peerHungUp}
	var atOnce syscall.Timespec
	_, _, errno := syscall.Syscall6(syscall.SYS_PPOLL, uintptr(unsafe.Pointer(&poll)), 1, uintptr(unsafe.Pointer(&atOnce)), 0, 0, 0)
	return errno == 0 && poll.revents&(peerHungUp|hungUp|failed) != 0
}
