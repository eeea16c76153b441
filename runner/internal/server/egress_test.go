package server

import (
	"errors"
	"fmt"
	"io"
	"math/rand"
	"net"
	"net/netip"
	"os"
	"syscall"
	"testing"
	"time"

	"sandglass/runner/internal/config"
	"sandglass/runner/internal/egress"
	"sandglass/runner/internal/runnertest"
	"sandglass/runner/internal/wire"
)

const (
	egressToken = "another token for tests"
	egressPort  = 10443
)

// An egressFixture is a server of this process with both endpoints on sockets.
type egressFixture struct {
	*testing.T
	srv    *Server
	main   *runnertest.Sandbox // clients of the ordinary endpoint
	egress *runnertest.Sandbox // clients of the egress endpoint
	target string              // address and port of the refused names
}

func openEgress(t *testing.T) *egressFixture {
	t.Helper()
	random := rand.New(rand.NewSource(time.Now().UnixNano() ^ int64(os.Getpid())<<32))
	address := netip.AddrFrom4([4]byte{127, byte(95 + random.Intn(30)), byte(random.Intn(256)), 1})
	options := egress.OptionsFor(&config.Egress{MaxNames: 16, MaxWaiting: 16})
	options.DNS, options.HTTPProxy, options.Socks = netip.AddrPortFrom(address, 10053), netip.AddrPortFrom(address, 3128), netip.AddrPortFrom(address, 1080)
	options.Refused, options.RefusedPorts, options.FirstName = address, []int{egressPort}, address.Next()
	cfg := &config.Config{Token: runnertest.Token, Workdir: "/", Egress: &config.Egress{Token: egressToken}}
	srv, err := newServer(cfg, egress.New(options))
	if err != nil {
		t.Fatal(err)
	}
	if err := srv.OpenEgress(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.egress.way.Close)
	f := &egressFixture{T: t, srv: srv, target: netip.AddrPortFrom(address, egressPort).String()}
	dir := t.TempDir()
	for path, accept := range map[string]func(net.Listener){"main": srv.Accept, "egress": srv.AcceptEgress} {
		listener, err := net.Listen("unix", dir+"/"+path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { listener.Close() })
		go accept(listener)
	}
	f.main, f.egress = &runnertest.Sandbox{T: t, Socket: dir + "/main"}, &runnertest.Sandbox{T: t, Socket: dir + "/egress"}
	return f
}

// greet sends a hello and returns the answer.
func greet(c *runnertest.Client, token string, isMux bool) wire.Fields {
	c.Send(wire.Fields{"type": "hello", "version": 1, "token": token, "mux": isMux}, nil)
	answer, _ := c.Receive()
	return answer
}

// ready greets with the token of the egress endpoint.
func (f *egressFixture) ready(c *runnertest.Client, isMux bool) *runnertest.Client {
	f.Helper()
	if answer := greet(c, egressToken, isMux); answer["type"] != "ready" {
		f.Fatalf("no ready line but %v", answer)
	}
	return c
}

// relayed returns a stream of the ordinary endpoint that is a connection to the egress endpoint.
func (f *egressFixture) relayed(c *runnertest.Client) *runnertest.Client {
	f.Helper()
	if reply, _ := c.Call("egress", nil); reply["ok"] != true || reply["type"] != "egress" {
		f.Fatalf("got %v", reply)
	}
	return c
}

// muxOn returns the frames of a connection to the egress endpoint.
func (f *egressFixture) muxOn(c *runnertest.Client) *runnertest.Mux {
	f.Helper()
	f.ready(c, true)
	return &runnertest.Mux{T: f.T, Conn: c.Conn, In: c.In}
}

// ways are the ways to reach the egress endpoint. Each returns a function that opens a stream there.
func (f *egressFixture) ways() map[string]func() func() *runnertest.Client {
	return map[string]func() func() *runnertest.Client{
		"connections": func() func() *runnertest.Client {
			return func() *runnertest.Client { return f.ready(f.egress.DialRaw(), false) }
		},
		"a connection with a multiplexer": func() func() *runnertest.Client {
			return f.muxOn(f.egress.DialRaw()).Open
		},
		"a device": func() func() *runnertest.Client {
			fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC|syscall.SOCK_NONBLOCK, 0)
			if err != nil {
				f.Fatal(err)
			}
			if err := f.srv.ServeEgressCarrier(fmt.Sprintf("fd:%d", fds[0])); err != nil {
				f.Fatal(err)
			}
			file := os.NewFile(uintptr(fds[1]), "device")
			f.Cleanup(func() { file.Close() })
			end := &deviceEnd{r: file, w: file}
			end.SetDeadline(time.Now().Add(runnertest.Patience))
			answer, m := end.greet(f.T, nonce(1), egressToken)
			if answer["type"] != "ready" {
				f.Fatalf("no ready line but %v", answer)
			}
			return m.Open
		},
		"streams of the daemon": func() func() *runnertest.Client {
			return func() *runnertest.Client { return f.ready(f.relayed(f.main.Dial()), false) }
		},
		"a multiplexer in a connection of the daemon": func() func() *runnertest.Client {
			return f.muxOn(f.relayed(f.main.Dial())).Open
		},
		"a multiplexer in a stream of the daemon's multiplexer": func() func() *runnertest.Client {
			return f.muxOn(f.relayed(f.main.Mux().Open())).Open
		},
	}
}

func TestEveryWayToTheEgressEndpoint(t *testing.T) {
	f := openEgress(t)
	for title, way := range f.ways() {
		t.Run(title, func(t *testing.T) {
			open := way()
			control := open()
			program, number := f.announced(control)
			stream := f.taken(open, number)
			program.Write([]byte("question"))
			question := make([]byte, len("question"))
			if _, err := io.ReadFull(stream.In.Buf, question); err != nil || string(question) != "question" {
				t.Fatalf("the client got %q, %v", question, err)
			}
			stream.Conn.Write([]byte("answer"))
			stream.Conn.(interface{ CloseWrite() error }).CloseWrite()
			if got, err := io.ReadAll(program); err != nil || string(got) != "answer" {
				t.Errorf("the program got %q, %v", got, err)
			}
			program.Write([]byte("; thanks"))
			program.Close()
			if got, err := io.ReadAll(stream.In.Buf); err != nil || string(got) != "; thanks" {
				t.Errorf("the client got %q, %v", got, err)
			}
		})
	}
}

// announced starts a control stream and connects a program, whose connection has the number.
func (f *egressFixture) announced(control *runnertest.Client) (program *net.TCPConn, number any) {
	f.Helper()
	if reply, _ := control.Call("control", nil); reply["ok"] != true {
		f.Fatalf("got %v", reply)
	}
	control.Send(wire.Fields{"type": "config", "generation": 1}, nil)
	return f.connected(control)
}

func (f *egressFixture) connected(control *runnertest.Client) (program *net.TCPConn, number any) {
	f.Helper()
	conn, err := net.Dial("tcp4", f.target)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(runnertest.Patience))
	m, _ := control.Receive()
	if m["type"] != "connection" {
		f.Fatalf("got %v", m)
	}
	return conn.(*net.TCPConn), m["connection"]
}

func (f *egressFixture) taken(open func() *runnertest.Client, number any) *runnertest.Client {
	f.Helper()
	stream := open()
	if reply, _ := stream.Call("take", wire.Fields{"connection": number}); reply["ok"] != true {
		f.Fatalf("got %v", reply)
	}
	return stream
}

func TestEachTokenPermitsOneEndpoint(t *testing.T) {
	f := openEgress(t)
	for title, c := range map[string]struct {
		client *runnertest.Client
		token  string
	}{
		"the ordinary token at the egress endpoint": {f.egress.DialRaw(), runnertest.Token},
		"the ordinary token in an egress stream":    {f.relayed(f.main.Dial()), runnertest.Token},
		"the egress token at the ordinary endpoint": {f.main.DialRaw(), egressToken},
		"no token":      {f.egress.DialRaw(), ""},
		"another token": {f.egress.DialRaw(), "something else entirely"},
	} {
		if answer := greet(c.client, c.token, false); answer["code"] != wire.CodeUnauthorized {
			t.Errorf("%s: %v", title, answer)
		}
		if m, _ := c.client.Receive(); m != nil {
			t.Errorf("%s: the connection goes on with %v", title, m)
		}
	}
}

func TestTheEgressEndpointServesTwoRequests(t *testing.T) {
	f := openEgress(t)
	kinds := []string{"hello", "nonsense", ""}
	for kind := range f.srv.endpoint.table.handlers {
		kinds = append(kinds, kind)
	}
	for kind := range f.srv.endpoint.table.streams {
		kinds = append(kinds, kind)
	}
	if len(kinds) < 30 {
		t.Fatalf("only %d kinds of requests", len(kinds))
	}
	c := f.ready(f.egress.DialRaw(), false)
	for _, kind := range kinds {
		if reply, _ := c.Call(kind, wire.Fields{"cmd": "true", "stream": true}); reply["code"] != wire.CodeInvalidRequest {
			t.Errorf("%q: %v", kind, reply)
		}
	}
	if reply, _ := f.main.Dial().Call("control", nil); reply["code"] != wire.CodeInvalidRequest {
		t.Errorf("control at the ordinary endpoint: %v", reply)
	}
}

func TestWithoutEgressThereIsNoEgressStream(t *testing.T) {
	if reply, _ := runnertest.Start(t, nil).Dial().Call("egress", nil); reply["code"] != wire.CodeInvalidRequest {
		t.Errorf("got %v", reply)
	}
}

func TestAResetGoesThroughTheMultiplexerBothWays(t *testing.T) {
	f := openEgress(t)
	open := f.muxOn(f.egress.DialRaw()).Open
	control := open()
	program, number := f.announced(control)
	stream := f.taken(open, number)
	program.SetLinger(0)
	program.Close()
	if _, err := stream.Conn.Read(make([]byte, 1)); !errors.Is(err, wire.ErrReset) {
		t.Errorf("the client sees %v", err)
	}

	program, number = f.connected(control)
	stream = f.taken(open, number)
	stream.Conn.Write([]byte("a part"))
	part := make([]byte, len("a part"))
	io.ReadFull(program, part)
	stream.Conn.(*runnertest.MuxConn).Reset()
	if n, err := program.Read(part); n > 0 || !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the program sees %d bytes, %v", n, err)
	}

	// A client that has ended its direction in order may reset the other: all that it sent arrives.
	program, number = f.connected(control)
	stream = f.taken(open, number)
	stream.Conn.Write([]byte("all of it"))
	stream.Conn.(*runnertest.MuxConn).CloseWrite()
	stream.Conn.(*runnertest.MuxConn).Reset()
	if got, err := io.ReadAll(program); err != nil || string(got) != "all of it" {
		t.Errorf("the program got %q, %v", got, err)
	}
}

func TestACarrierThatEndsResetsItsConnections(t *testing.T) {
	f := openEgress(t)
	m := f.muxOn(f.egress.DialRaw())
	control := m.Open()
	program, number := f.announced(control)
	f.taken(m.Open, number)
	m.Conn.Close()
	if n, err := program.Read(make([]byte, 1)); n > 0 || !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the program sees %d bytes, %v", n, err)
	}
}
