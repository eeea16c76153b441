package egress

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"sandglass/runner/internal/wire"
)

const (
	patience = 20 * time.Second // longest wait for an event that must happen
	tlsPort  = 10443
	webPort  = 10080
)

// A fixture is an Egress on addresses that no other test uses. Those of the server have 127.95 and above.
type fixture struct {
	*testing.T
	*Egress
}

func open(t *testing.T, change func(*Options)) *fixture {
	t.Helper()
	random := rand.New(rand.NewSource(time.Now().UnixNano() ^ int64(os.Getpid())<<32))
	network := [4]byte{127, byte(65 + random.Intn(30)), byte(random.Intn(256)), 0}
	address := func(last byte) netip.Addr {
		network[3] = last
		return netip.AddrFrom4(network)
	}
	options := Options{
		DNS: netip.AddrPortFrom(address(1), 10053), HTTPProxy: netip.AddrPortFrom(address(1), 3128), Socks: netip.AddrPortFrom(address(1), 1080),
		Refused: address(2), RefusedPorts: []int{webPort, tlsPort}, FirstName: address(3), MaxNames: 10, MaxWaiting: 3000,
		LookupTimeout: time.Minute, TakeTimeout: time.Minute, AbsenceTimeout: time.Minute,
	}
	if change != nil {
		change(&options)
	}
	e := New(options)
	if err := e.Open(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return &fixture{t, e}
}

// A client is the egress process's end of a stream.
type client struct {
	t    *testing.T
	conn *net.UnixConn
	in   *wire.Reader
}

// stream opens a stream and returns it with the reply.
func (f *fixture) stream(kind string, args wire.Fields) (*client, wire.Fields) {
	f.Helper()
	ours, theirs := socketPair(f.T)
	raw, err := json.Marshal(args)
	if err != nil {
		f.Fatal(err)
	}
	go func() {
		defer theirs.Close()
		s := &wire.Stream{ID: "1", Kind: kind, In: wire.NewReader(theirs), Out: wire.NewWriter(theirs), Conn: theirs}
		wire.ServeStream(f.Streams()[kind], s, &wire.Request{ID: "1", Kind: kind, Raw: raw})
	}()
	c := &client{f.T, ours, wire.NewReader(ours)}
	return c, c.next()
}

func socketPair(t *testing.T) (ours, theirs *net.UnixConn) {
	t.Helper()
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	var ends [2]*net.UnixConn
	for i, fd := range pair {
		file := os.NewFile(uintptr(fd), "pair")
		conn, err := net.FileConn(file)
		file.Close()
		if err != nil {
			t.Fatal(err)
		}
		ends[i] = conn.(*net.UnixConn)
	}
	ends[0].SetDeadline(time.Now().Add(patience))
	t.Cleanup(func() { ends[0].Close() })
	return ends[0], ends[1]
}

// connect opens a control stream with a generation.
func (f *fixture) connect(generation int) *client {
	f.Helper()
	c, reply := f.stream("control", nil)
	if reply["type"] != "control" || reply["ok"] != true {
		f.Fatalf("reply %v", reply)
	}
	f.configure(c, generation)
	return c
}

// configure starts a generation and waits until it is in use.
func (f *fixture) configure(c *client, generation int) {
	f.Helper()
	c.send("config", wire.Fields{"generation": generation})
	f.eventually("the configuration is in use", func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.lookups.mu.Lock()
		defer f.lookups.mu.Unlock()
		return f.control != nil && f.lookups.control == f.control && f.lookups.generation == uint64(generation)
	})
}

// take takes a connection.
func (f *fixture) take(number any) *client {
	f.Helper()
	c, reply := f.stream("take", wire.Fields{"connection": number})
	if reply["type"] != "take" || reply["ok"] != true {
		f.Fatalf("reply %v", reply)
	}
	return c
}

func (c *client) send(kind string, fields wire.Fields) {
	c.t.Helper()
	line, err := wire.EncodeLine(kind, "", fields, -1)
	if err != nil {
		c.t.Fatal(err)
	}
	if _, err := c.conn.Write(line); err != nil {
		c.t.Fatal(err)
	}
}

// next returns the next message; nil at the end of the stream.
func (c *client) next() wire.Fields {
	c.t.Helper()
	line, err := c.in.Line()
	if err != nil {
		if !errors.Is(err, io.EOF) {
			c.t.Fatal(err)
		}
		return nil
	}
	m := wire.Fields{}
	if err := json.Unmarshal(line, &m); err != nil {
		c.t.Fatal(err)
	}
	return m
}

// expect returns the next message and fails unless it has this type.
func (c *client) expect(kind string) wire.Fields {
	c.t.Helper()
	m := c.next()
	if m["type"] != kind {
		c.t.Fatalf("got %v, want %s", m, kind)
	}
	return m
}

// answer expects a question about a name and answers it.
func (c *client) answer(name string, generation int, answer string, ports ...int) {
	c.t.Helper()
	m := c.expect("resolve")
	if m["name"] != name {
		c.t.Fatalf("asked about %v instead of %s", m["name"], name)
	}
	fields := wire.Fields{"query": m["query"], "generation": generation, "answer": answer}
	if answer == answerAddress {
		fields["ports"] = ports
	}
	c.send("resolved", fields)
}

// all reads a stream to its end.
func (c *client) all() string {
	c.t.Helper()
	data, err := io.ReadAll(c.in.Buf)
	if err != nil {
		c.t.Fatal(err)
	}
	return string(data)
}

// start asks the DNS server for the address of a name. The function that is returned waits for the answer: an address,
// or the code of an error.
func (f *fixture) start(name string) func() string {
	f.Helper()
	conn, err := net.Dial("udp4", f.options.DNS.String())
	if err != nil {
		f.Fatal(err)
	}
	conn.SetDeadline(time.Now().Add(patience))
	query := []byte{0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0}
	for _, label := range strings.Split(name, ".") {
		query = append(append(query, byte(len(label))), label...)
	}
	if _, err := conn.Write(append(query, 0, 0, 1, 0, 1)); err != nil {
		f.Fatal(err)
	}
	return func() string {
		f.Helper()
		defer conn.Close()
		reply := make([]byte, 512)
		n, err := conn.Read(reply)
		if err != nil {
			f.Fatal(err)
		}
		if code := reply[3] & 0xf; code != 0 {
			return map[byte]string{2: "SERVFAIL", 3: "NXDOMAIN"}[code]
		}
		if binary.BigEndian.Uint16(reply[6:]) != 1 {
			return "nothing"
		}
		return net.IP(reply[n-4 : n]).String()
	}
}

func (f *fixture) resolve(name string) string {
	f.Helper()
	return f.start(name)()
}

// allowed resolves a name that the client allows at the ports.
func (f *fixture) allowed(c *client, name string, ports ...int) string {
	f.Helper()
	address := f.start(name)
	c.answer(name, 1, answerAddress, ports...)
	return address()
}

// program connects like a program of the sandbox.
func (f *fixture) program(address string, port int) *net.TCPConn {
	f.Helper()
	conn, err := net.Dial("tcp4", net.JoinHostPort(address, fmt.Sprint(port)))
	if err != nil {
		f.Fatal(err)
	}
	conn.SetDeadline(time.Now().Add(patience))
	f.Cleanup(func() { conn.Close() })
	return conn.(*net.TCPConn)
}

// connected returns a connection of a program and what was announced.
func (f *fixture) connected(c *client) (*net.TCPConn, wire.Fields) {
	f.Helper()
	conn := f.program(f.options.Refused.String(), tlsPort)
	return conn, c.expect("connection")
}

// isResetAtOnce connects to the refused address and expects a reset, which may come before the connection is complete.
func (f *fixture) isResetAtOnce() error {
	conn, err := net.Dial("tcp4", fmt.Sprintf("%s:%d", f.options.Refused, tlsPort))
	if errors.Is(err, syscall.ECONNRESET) {
		return nil
	}
	if err != nil {
		return err
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(patience))
	return isReset(conn)
}

func isReset(conn net.Conn) error {
	n, err := conn.Read(make([]byte, 1))
	if n > 0 || !errors.Is(err, syscall.ECONNRESET) {
		return fmt.Errorf("read %d bytes, %v", n, err)
	}
	return nil
}

func (f *fixture) eventually(what string, condition func() bool) {
	f.Helper()
	for deadline := time.Now().Add(patience); !condition(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			f.Fatalf("it never happened that %s", what)
		}
	}
}

// numbers are the connections that are open and those among them that wait.
func (f *fixture) numbers() (open, waiting int) {
	f.connections.mu.Lock()
	defer f.connections.mu.Unlock()
	return len(f.connections.open), f.connections.waiting
}
