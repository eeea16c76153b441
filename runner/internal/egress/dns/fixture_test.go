package dns

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"
)

const patience = 20 * time.Second

// question encodes a query with one question. The labels of the name are separated by dots.
func question(name string, kind uint16) []byte {
	packet := []byte{0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0}
	for _, label := range strings.Split(name, ".") {
		if label != "" {
			packet = append(append(packet, byte(len(label))), label...)
		}
	}
	packet = append(packet, 0)
	packet = binary.BigEndian.AppendUint16(packet, kind)
	return binary.BigEndian.AppendUint16(packet, classIN)
}

// withOptions adds an OPT record of an EDNS version.
func withOptions(packet []byte, version byte, data ...byte) []byte {
	packet[11]++
	packet = append(packet, 0, 0, typeOPT, 0x10, 0, 0, version, 0, 0, 0, byte(len(data)))
	return append(packet, data...)
}

// A reply is a decoded answer. It is decoded independently of the code that encodes it.
type reply struct {
	id       uint16
	code     int
	flags    uint16
	question string // the bytes of its section
	address  string
	hasEDNS  bool
}

func decode(t *testing.T, packet []byte) reply {
	t.Helper()
	if len(packet) < headerBytes || len(packet) > 512 || packet[2]&0x80 == 0 {
		t.Fatalf("no answer: %x", packet)
	}
	r := reply{id: binary.BigEndian.Uint16(packet), flags: binary.BigEndian.Uint16(packet[2:]), code: int(packet[3] & 0xf)}
	rest := packet[headerBytes:]
	if packet[5] == 1 {
		end := 0
		for rest[end] != 0 {
			end += 1 + int(rest[end])
		}
		r.question = string(rest[:end+5])
		rest = rest[end+5:]
	}
	if packet[7] == 1 {
		want := []byte{0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 1, 0, 4}
		if string(rest[:12]) != string(want) {
			t.Fatalf("record %x, want %x", rest[:12], want)
		}
		r.address = netip.AddrFrom4([4]byte{rest[12], rest[13], rest[14], rest[15]}).String()
		rest = rest[16:]
	}
	if packet[11] == 1 {
		if len(rest) != 11 || rest[0] != 0 || rest[2] != typeOPT {
			t.Fatalf("OPT record %x", rest)
		}
		r.hasEDNS = true
		r.code |= int(rest[5]) << 4
		rest = rest[11:]
	}
	if len(rest) > 0 || packet[4] != 0 || packet[6] != 0 || packet[8] != 0 || packet[9] != 0 || packet[10] != 0 {
		t.Fatalf("unexpected sections: %x", packet)
	}
	return r
}

// A fixture is a server on real sockets.
type fixture struct {
	*testing.T
	udp, tcp net.Conn
}

func start(t *testing.T, lookup func(name string) Answer) *fixture {
	t.Helper()
	packets, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := NewServer("Box", lookup)
	go s.ServePackets(packets)
	go s.ServeConnections(listener)
	t.Cleanup(func() {
		packets.Close()
		listener.Close()
	})
	f := &fixture{T: t, udp: connect(t, packets.LocalAddr()), tcp: connect(t, listener.Addr())}
	return f
}

func connect(t *testing.T, address net.Addr) net.Conn {
	t.Helper()
	conn, err := net.Dial(address.Network(), address.String())
	if err != nil {
		t.Fatal(err)
	}
	conn.SetDeadline(time.Now().Add(patience))
	t.Cleanup(func() { conn.Close() })
	return conn
}

func (f *fixture) receivePacket() []byte {
	f.Helper()
	buffer := make([]byte, 1024)
	n, err := f.udp.Read(buffer)
	if err != nil {
		f.Fatal(err)
	}
	return buffer[:n]
}

// ask sends a query over UDP and TCP, and fails unless both answers are the same.
func (f *fixture) ask(packet []byte) reply {
	f.Helper()
	f.udp.Write(packet)
	first := f.receivePacket()
	f.sendTCP(packet)
	if second := f.receiveTCP(); string(second) != string(first) {
		f.Fatalf("%x over UDP and %x over TCP", first, second)
	}
	return decode(f.T, first)
}

func (f *fixture) sendTCP(packet []byte) {
	f.tcp.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(packet))), packet...))
}

func (f *fixture) receiveTCP() []byte {
	f.Helper()
	var length [2]byte
	if _, err := io.ReadFull(f.tcp, length[:]); err != nil {
		f.Fatal(err)
	}
	packet := make([]byte, binary.BigEndian.Uint16(length[:]))
	if _, err := io.ReadFull(f.tcp, packet); err != nil {
		f.Fatal(err)
	}
	return packet
}

// known is a lookup with one name of each kind.
func known(name string) Answer {
	switch name {
	case "example.com", "single":
		return Answer{Kind: Found, Address: netip.MustParseAddr("127.64.0.2")}
	case "missing.example":
		return Answer{Kind: Missing}
	case "failing.example":
		return Answer{}
	}
	panic(fmt.Sprintf("%q was looked up", name))
}
