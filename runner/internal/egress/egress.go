// Package egress is the runner's side of the way out of a sandbox.
//
// A sandbox has a loopback interface only. Programs ask the DNS server of this package for names. A name that the
// policy allows gets a loopback address of its own, with listeners at the ports that the policy names; the names that
// it refuses share one address. Each connection to one of these addresses, or to one of the two proxy ports, is
// announced to the egress process, which runs outside. The egress process takes the connection as a stream of raw
// bytes, or refuses it. It dials the runner, never the other way. PROTOCOL.md, section Egress, describes the messages.
//
// SECURITY: this package does not know the policy and parses nothing but DNS. A name without an answer of the egress
// process fails, and a connection that the egress process does not take is reset.
package egress

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"

	"sandglass/runner/internal/config"
	"sandglass/runner/internal/egress/dns"
	"sandglass/runner/internal/wire"
)

// Options are the addresses, limits and timeouts.
type Options struct {
	DNS          netip.AddrPort // UDP and TCP
	HTTPProxy    netip.AddrPort
	Socks        netip.AddrPort
	Refused      netip.Addr // shared by all names that the policy refuses
	RefusedPorts []int
	FirstName    netip.Addr // of the first name that the policy allows; the others follow
	MaxNames     int
	MaxWaiting   int

	LookupTimeout  time.Duration // for the answer about a name
	TakeTimeout    time.Duration // from the acceptance of a connection until it is taken
	AbsenceTimeout time.Duration // how long a connection waits while there is no control stream
}

// OptionsFor returns the options of a sandbox.
func OptionsFor(cfg *config.Egress) Options {
	resolver := netip.AddrFrom4([4]byte{127, 0, 0, 53})
	return Options{
		DNS: netip.AddrPortFrom(resolver, 53), HTTPProxy: netip.AddrPortFrom(resolver, 3128), Socks: netip.AddrPortFrom(resolver, 1080),
		Refused: netip.AddrFrom4([4]byte{127, 64, 0, 1}), RefusedPorts: []int{80, 443}, FirstName: netip.AddrFrom4([4]byte{127, 64, 0, 2}),
		MaxNames: cfg.MaxNames, MaxWaiting: cfg.MaxWaiting,
		LookupTimeout: 10 * time.Second, TakeTimeout: time.Minute, AbsenceTimeout: 10 * time.Second,
	}
}

// An Egress is the way out of one sandbox.
type Egress struct {
	options     Options
	lookups     *lookups
	connections *connections
	names       *names
	fixed       []io.Closer // the sockets that are open from the start

	mu      sync.Mutex
	control *control // the one that was opened last; nil if it has ended
}

// New returns an Egress that is not reachable yet.
func New(options Options) *Egress {
	e := &Egress{options: options, lookups: newLookups(options.LookupTimeout)}
	files := newDescriptors()
	e.connections = newConnections(options, files)
	e.names = newNames(options, files, e.connections)
	return e
}

// Open opens the DNS server and the listeners whose addresses are fixed.
func (e *Egress) Open() error {
	hostName, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("read host name: %w", err)
	}
	packets, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(e.options.DNS))
	if err != nil {
		return fmt.Errorf("open DNS server: %w", err)
	}
	e.fixed = append(e.fixed, packets)
	queries, err := listen(e.options.DNS)
	if err != nil {
		return e.failed("open DNS server", err)
	}
	e.fixed = append(e.fixed, queries)
	ports := map[netip.AddrPort]source{
		e.options.HTTPProxy: {via: viaHTTPProxy},
		e.options.Socks:     {via: viaSocks},
	}
	for _, port := range e.options.RefusedPorts {
		ports[netip.AddrPortFrom(e.options.Refused, uint16(port))] = source{port: port, via: viaRefused}
	}
	for address, from := range ports {
		listener, err := listen(address)
		if err != nil {
			return e.failed("open egress port", err)
		}
		e.fixed = append(e.fixed, listener)
		go e.connections.accept(listener, from)
	}
	server := dns.NewServer(hostName, e.lookUp)
	go server.ServePackets(packets)
	go server.ServeConnections(queries)
	return nil
}

func (e *Egress) failed(what string, err error) error {
	e.Close()
	return fmt.Errorf("%s: %w", what, err)
}

// Close closes all sockets and resets the connections.
func (e *Egress) Close() {
	for _, socket := range e.fixed {
		socket.Close()
	}
	e.names.close()
	e.connections.close()
}

// Streams are the requests of the egress endpoint.
func (e *Egress) Streams() map[string]wire.StreamHandler {
	return map[string]wire.StreamHandler{"control": e.serveControl, "take": e.take}
}

// lookUp answers a query for the address of a name.
func (e *Egress) lookUp(name string) dns.Answer {
	found := e.lookups.get(name)
	switch found.kind {
	case answerAddress:
		address, failures, ok := e.names.set(name, found.ports)
		for _, failure := range failures {
			e.lookups.tell("bind_failed", failure)
		}
		if ok {
			return dns.Answer{Kind: dns.Found, Address: address}
		}
	case answerRefused:
		e.names.remove(name)
		return dns.Answer{Kind: dns.Found, Address: e.options.Refused}
	case answerMissing:
		e.names.remove(name)
		return dns.Answer{Kind: dns.Missing}
	}
	return dns.Answer{Kind: dns.Failed}
}
