package egress

import (
	"io"
	"net"
	"sync/atomic"
	"syscall"

	"sandglass/runner/internal/sys"
	"sandglass/runner/internal/wire"
)

// take connects a stream with a waiting connection and copies bytes both ways. Each direction ends separately.
func (e *Egress) take(s *wire.Stream, q *wire.Request) error {
	var call struct {
		Connection uint64 `json:"connection"`
	}
	if err := q.Decode(&call); err != nil {
		return err
	}
	c, err := e.connections.take(call.Connection)
	if err != nil {
		return err
	}
	defer e.connections.finish(c)
	if err := s.Reply(wire.Fields{"ok": true}); err != nil {
		reset(c.conn)
		return err
	}
	first, err := s.In.Buf.Peek(s.In.Buf.Buffered())
	if err == nil {
		_, err = c.conn.Write(first)
	}
	if err != nil {
		reset(c.conn)
		return err
	}
	s.In, q.Body = nil, nil // an idle connection needs no buffer
	forward(c.conn, s.Conn)
	return nil
}

// forward copies both ways until both directions have ended or one side is gone.
func forward(program *net.TCPConn, client wire.Conn) {
	var ended atomic.Int32 // directions that have ended in order
	isOver := func() bool { return ended.Add(1) == 2 }
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		if err := copyFrom(program, client); err != nil {
			reset(program)
			resetStream(client)
			return
		}
		client.CloseWrite()
		if isOver() {
			client.Close() // ends awaitGone below
		}
	}()
	if err := copyTo(program, client); err != nil {
		reset(program)
		resetStream(client)
	} else {
		program.CloseWrite()
		if !isOver() {
			awaitStreamGone(client)
		}
		program.Close()
	}
	<-sent
}

// copyFrom copies what a socket receives, up to the end of its input. While nothing arrives it needs no buffer.
func copyFrom(source syscall.Conn, to io.Writer) error {
	raw, err := source.SyscallConn()
	if err != nil {
		return err
	}
	for isBusy := false; ; {
		var chunk []byte
		var n int
		var readErr error
		err := raw.Read(func(fd uintptr) bool {
			chunk = takeBuffer(isBusy)
			for {
				n, readErr = syscall.Read(int(fd), chunk)
				if readErr != syscall.EINTR {
					break
				}
			}
			if readErr == syscall.EAGAIN {
				giveBuffer(chunk)
				return false
			}
			return true
		})
		if err != nil {
			return err
		}
		if readErr == nil && n > 0 {
			_, err = to.Write(chunk[:n])
		}
		isBusy = n >= smallBuffer
		giveBuffer(chunk)
		switch {
		case readErr != nil:
			return readErr
		case err != nil:
			return err
		case n == 0:
			return nil
		}
	}
}

// copyTo copies what the client sends to the program.
func copyTo(program *net.TCPConn, client wire.Conn) error {
	if stream, ok := client.(io.WriterTo); ok {
		_, err := stream.WriteTo(program)
		return err
	}
	if socket, ok := client.(syscall.Conn); ok {
		return copyFrom(socket, program)
	}
	_, err := io.Copy(program, client)
	return err
}

// resetStream ends a stream so that the client sees that it has not ended in order, as far as the carrier can tell.
func resetStream(client wire.Conn) {
	if stream, ok := client.(interface{ Reset() error }); ok {
		stream.Reset()
		return
	}
	client.Close()
}

// awaitStreamGone waits, after the end of a stream's input, until the client reads no more, either.
func awaitStreamGone(client wire.Conn) {
	switch stream := client.(type) {
	case interface{ AwaitGone() }:
		stream.AwaitGone()
	case syscall.Conn:
		raw, err := stream.SyscallConn()
		if err != nil {
			return
		}
		raw.Read(func(fd uintptr) bool { return sys.IsDead(int32(fd)) })
	}
}
