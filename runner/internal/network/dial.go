// Package network deals with the network of a sandbox: its loopback addresses, its listening ports, and connections
// to them.
package network

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"syscall"
	"time"

	"sandglass/runner/internal/wire"
)

const dialTimeout = 10 * time.Second

// Dial connects a stream to a TCP port of the sandbox and copies bytes both ways. Each direction ends separately; the
// stream closes after both.
func Dial(s *wire.Stream, q *wire.Request) error {
	var call struct {
		Port int `json:"port"`
	}
	if err := q.Decode(&call); err != nil {
		return err
	}
	if call.Port < 1 || call.Port > 65535 {
		return wire.Invalid("port must be 1 to 65535")
	}
	conn, err := dialLoopback(call.Port)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := s.Reply(wire.Fields{"ok": true}); err != nil {
		return err
	}
	out := make(chan struct{})
	go func() {
		defer close(out)
		io.Copy(conn, s.In.Buf)
		conn.CloseWrite()
	}()
	io.Copy(s.Conn, conn)
	s.Conn.CloseWrite()
	<-out
	return nil
}

// dialLoopback tries IPv4 first, because most servers that listen on one family only listen on IPv4.
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
	return nil, wire.NewError(wire.CodePortClosed, fmt.Sprintf("nothing listens on port %d in the sandbox", port), wire.Fields{"port": port})
}
