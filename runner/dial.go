package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"syscall"
	"time"
)

const dialTimeout = 10 * time.Second

// dialPort connects the stream to a TCP port of the sandbox and passes bytes
// both ways. Each direction ends on its own; the stream closes after both.
func dialPort(_ *runner, s *stream, q *request) error {
	var call struct {
		Port int `json:"port"`
	}
	if err := q.decode(&call); err != nil {
		return err
	}
	if call.Port < 1 || call.Port > 65535 {
		return invalid("port must be 1 to 65535")
	}
	conn, err := dialLoopback(call.Port)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := s.reply(fields{"ok": true}); err != nil {
		return err
	}
	out := make(chan struct{})
	go func() {
		defer close(out)
		io.Copy(conn, s.in.buf)
		conn.CloseWrite()
	}()
	io.Copy(s.conn, conn)
	s.conn.CloseWrite()
	<-out
	return nil
}

// dialLoopback tries IPv4 first: most servers that listen on one family only listen there.
func dialLoopback(port int) (*net.TCPConn, error) {
	for _, host := range []string{"127.0.0.1", "::1"} {
		conn, err := net.DialTimeout("tcp", net.JoinHostPort(host, strconv.Itoa(port)), dialTimeout)
		if err == nil {
			return conn.(*net.TCPConn), nil
		}
		if !errors.Is(err, syscall.ECONNREFUSED) && !errors.Is(err, syscall.EADDRNOTAVAIL) && !errors.Is(err, syscall.EAFNOSUPPORT) {
			return nil, fmt.Errorf("dial port %d: %w", port, err)
		}
	}
	return nil, &runnerError{codePortClosed, fmt.Sprintf("nothing listens on port %d in the sandbox", port), fields{"port": port}}
}
