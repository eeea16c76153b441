package network

import (
	"bytes"
	"fmt"
	"net"
	"strings"
	"testing"

	"sandglass/runner/internal/runnertest"
	"sandglass/runner/internal/wire"
)

func TestDialAndPorts(t *testing.T) {
	s := runnertest.Start(t, nil)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	port := listener.Addr().(*net.TCPAddr).Port
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		var all bytes.Buffer
		all.ReadFrom(conn) // until the client ends its side
		conn.Write(append([]byte("got "), all.Bytes()...))
		conn.Close()
	}()
	c := s.Dial()
	if f, _ := c.Call("dial", wire.Fields{"port": port}); f["ok"] != true {
		t.Fatalf("dial: %v", f)
	}
	c.Conn.Write([]byte("raw \x00 bytes"))
	c.Conn.(*net.UnixConn).CloseWrite()
	var back bytes.Buffer
	back.ReadFrom(c.In.Buf)
	if back.String() != "got raw \x00 bytes" {
		t.Errorf("got %q", back.String())
	}
	f, _ := s.Dial().Call("ports", nil)
	if !strings.Contains(fmt.Sprint(f["ports"]), fmt.Sprintf("port:%d", port)) {
		t.Errorf("ports: %v", f["ports"])
	}
	listener.Close()
	if f, _ := s.Dial().Call("dial", wire.Fields{"port": port}); f["code"] != wire.CodePortClosed {
		t.Errorf("dial a closed port: %v", f)
	}
	if f, _ := s.Dial().Call("dial", wire.Fields{"port": 0}); f["code"] != wire.CodeInvalidRequest {
		t.Errorf("dial port 0: %v", f)
	}
}
