package egress

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"time"

	"sandglass/runner/internal/wire"
)

// reportPause is the least time between two reports that the same listener cannot be opened. A program can make it
// fail as often as it likes.
const reportPause = time.Minute

// names are the names that have an address of their own, and their listeners.
type names struct {
	max         int
	files       *descriptors
	connections *connections

	mu    sync.Mutex
	known map[string]*name
	next  netip.Addr // never used before
}

type name struct {
	address   netip.Addr
	listeners map[int]*net.TCPListener
	reported  map[int]time.Time // when a listener could not be opened
}

func newNames(options Options, files *descriptors, connections *connections) *names {
	return &names{max: options.MaxNames, files: files, connections: connections, known: map[string]*name{}, next: options.FirstName}
}

// set makes a name listen at exactly these ports. It returns the address of the name; false if the name cannot be
// reached at all its ports. failures are those that should be reported.
//
// SECURITY: an address is never used again for another name, because a program may keep the old answer for any time.
func (n *names) set(text string, ports []int) (address netip.Addr, failures []wire.Fields, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	known := n.known[text]
	if known == nil {
		if len(n.known) >= n.max || !n.next.IsLoopback() {
			return netip.Addr{}, nil, false
		}
		known = &name{address: n.next, listeners: map[int]*net.TCPListener{}, reported: map[int]time.Time{}}
		n.known[text] = known
		n.next = n.next.Next()
	}
	wanted := map[int]bool{}
	for _, port := range ports {
		wanted[port] = true
	}
	for port := range known.listeners {
		if !wanted[port] {
			n.closePort(known, port)
		}
	}
	ok = true
	for port := range wanted {
		if known.listeners[port] != nil {
			continue
		}
		err := n.openPort(text, known, port)
		if err == nil {
			delete(known.reported, port)
			continue
		}
		ok = false
		if time.Since(known.reported[port]) >= reportPause {
			known.reported[port] = time.Now()
			failures = append(failures, wire.Fields{"name": text, "port": port, "message": err.Error()})
		}
	}
	return known.address, failures, ok
}

func (n *names) openPort(text string, known *name, port int) error {
	if !n.files.take(listenerFiles) {
		return errors.New("the runner has too many open files")
	}
	listener, err := listen(netip.AddrPortFrom(known.address, uint16(port)))
	if err != nil {
		n.files.release(listenerFiles)
		return err
	}
	known.listeners[port] = listener
	go n.connections.accept(listener, source{name: text, port: port, via: viaName})
	return nil
}

func (n *names) closePort(known *name, port int) {
	known.listeners[port].Close()
	delete(known.listeners, port)
	n.files.release(listenerFiles)
}

// remove closes the listeners of a name. It gets another address if the policy allows it again.
func (n *names) remove(text string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	known := n.known[text]
	if known == nil {
		return
	}
	for port := range known.listeners {
		n.closePort(known, port)
	}
	delete(n.known, text)
}

func (n *names) close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, known := range n.known {
		for port := range known.listeners {
			n.closePort(known, port)
		}
	}
	n.known, n.max = map[string]*name{}, 0
}

// listen opens a listener. Its connections have no keep-alive timers: they do not leave the machine.
func listen(address netip.AddrPort) (*net.TCPListener, error) {
	config := net.ListenConfig{KeepAlive: -1}
	listener, err := config.Listen(context.Background(), "tcp4", address.String())
	if err != nil {
		return nil, err
	}
	return listener.(*net.TCPListener), nil
}
