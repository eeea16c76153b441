package dns

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"time"
)

const (
	maxQuery       = 4096             // bytes; a name has at most 255
	maxUnderWay    = 256              // lookups at once; while there are as many, further queries are not read
	maxConnections = 64               // TCP connections at once
	idleTimeout    = 10 * time.Second // of a TCP connection
	errorPause     = 20 * time.Millisecond
)

// An Answer is the result of a lookup.
type Answer struct {
	Kind    Kind
	Address netip.Addr // of a name that is Found
}

// Kind is the kind of an answer. The zero value is Failed.
type Kind int

const (
	Failed  Kind = iota // try again later
	Missing             // there is no such name
	Found
)

// A Server answers queries on a UDP socket and a TCP listener.
type Server struct {
	// Lookup returns the address of a name, which is in lower case and has no dot at its end. It may wait.
	Lookup   func(name string) Answer
	hostName string
	underWay chan struct{}
}

// NewServer returns a server for a machine with this host name.
func NewServer(hostName string, lookup func(name string) Answer) *Server {
	return &Server{Lookup: lookup, hostName: strings.ToLower(hostName), underWay: make(chan struct{}, maxUnderWay)}
}

// ServePackets answers the queries of a UDP socket until it is closed.
func (s *Server) ServePackets(conn *net.UDPConn) {
	buffer := make([]byte, maxQuery)
	for {
		n, from, err := conn.ReadFromUDPAddrPort(buffer)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			time.Sleep(errorPause)
			continue
		}
		q, code := parse(buffer[:n])
		if q == nil {
			continue
		}
		if reply := s.local(q, code); reply != nil {
			conn.WriteToUDPAddrPort(reply, from)
			continue
		}
		s.underWay <- struct{}{}
		go func() {
			conn.WriteToUDPAddrPort(s.lookUp(q), from)
			<-s.underWay
		}()
	}
}

// ServeConnections answers the queries of the connections of a listener until it is closed.
func (s *Server) ServeConnections(listener net.Listener) {
	slots := make(chan struct{}, maxConnections)
	for {
		slots <- struct{}{}
		conn, err := listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			time.Sleep(errorPause)
			<-slots
			continue
		}
		go func() {
			s.serveConnection(conn)
			conn.Close()
			<-slots
		}()
	}
}

// serveConnection answers the queries of a connection one after the other. In TCP a message follows its length.
func (s *Server) serveConnection(conn net.Conn) {
	buffer := make([]byte, 512)
	for {
		conn.SetDeadline(time.Now().Add(idleTimeout))
		if _, err := io.ReadFull(conn, buffer[:2]); err != nil {
			return
		}
		length := int(binary.BigEndian.Uint16(buffer))
		if length > maxQuery {
			return
		}
		if length > len(buffer) {
			buffer = make([]byte, length)
		}
		if _, err := io.ReadFull(conn, buffer[:length]); err != nil {
			return
		}
		q, code := parse(buffer[:length])
		if q == nil {
			return
		}
		reply := s.local(q, code)
		if reply == nil {
			s.underWay <- struct{}{}
			reply = s.lookUp(q)
			<-s.underWay
		}
		conn.SetDeadline(time.Now().Add(idleTimeout))
		if _, err := conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(reply))), reply...)); err != nil {
			return
		}
	}
}

// local returns the answer that needs no lookup; nil if there is none.
func (s *Server) local(q *query, code status) []byte {
	none := netip.Addr{}
	switch {
	case code != noError:
		return q.reply(code, none)
	case q.class != classIN:
		return q.reply(notImplemented, none)
	case q.kind == typePTR || isBelow(q.name, "arpa") || !q.isHostName:
		return q.reply(nameError, none)
	case isBelow(q.name, "localhost") || q.name == s.hostName && q.name != "":
		if q.kind == typeA {
			return q.reply(noError, netip.AddrFrom4([4]byte{127, 0, 0, 1}))
		}
		return q.reply(noError, none)
	case q.kind != typeA && q.kind != typeAAAA || q.name == "":
		return q.reply(noError, none)
	}
	return nil
}

// isBelow tells whether a name is the domain or below it.
func isBelow(name, domain string) bool {
	return name == domain || strings.HasSuffix(name, "."+domain)
}

// lookUp answers a query for an A or AAAA record. No name has an AAAA record, but the status is that of the name: a resolver takes the answers
// to both queries together.
func (s *Server) lookUp(q *query) []byte {
	answer := s.Lookup(q.name)
	switch {
	case answer.Kind == Missing:
		return q.reply(nameError, netip.Addr{})
	case answer.Kind != Found:
		return q.reply(serverFailure, netip.Addr{})
	case q.kind == typeA:
		return q.reply(noError, answer.Address)
	}
	return q.reply(noError, netip.Addr{})
}
