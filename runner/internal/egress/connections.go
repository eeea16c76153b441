package egress

import (
	"errors"
	"net"
	"sort"
	"sync"
	"syscall"
	"time"

	"sandglass/runner/internal/sys"
	"sandglass/runner/internal/wire"
)

const acceptPause = 20 * time.Millisecond // after a failure, for example because no descriptor is free

// What a program connected to.
const (
	viaName      = "name"
	viaRefused   = "refused"
	viaHTTPProxy = "http_proxy"
	viaSocks     = "socks"
)

// A source describes the listener that accepted a connection.
type source struct {
	name string
	port int
	via  string
}

// A connection is one that a program has opened. It waits until the egress process takes or refuses it, or until the
// program closes it or its deadline passes.
type connection struct {
	conn    *net.TCPConn
	number  uint64
	from    source
	takeBy  time.Time
	watched chan struct{} // closed when nothing waits for events of the connection any more

	// guarded by the mutex of connections
	deadline    time.Time
	isAnnounced bool // to the present control stream
	isTaken     bool
}

// connections are all connections of programs that are open.
type connections struct {
	options Options
	files   *descriptors

	mu       sync.Mutex
	control  *control // nil: connections wait for one
	open     map[uint64]*connection
	waiting  int
	last     uint64 // number of a connection
	isClosed bool
}

func newConnections(options Options, files *descriptors) *connections {
	return &connections{options: options, files: files, open: map[uint64]*connection{}}
}

// accept accepts the connections of a listener until it is closed.
func (t *connections) accept(listener *net.TCPListener, from source) {
	for {
		conn, err := listener.AcceptTCP()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			time.Sleep(acceptPause)
			continue
		}
		if c := t.add(conn, from); c != nil {
			c.wait()
		}
	}
}

// add lets a connection wait, or resets it if too many do. It returns the control stream that it was announced on.
func (t *connections) add(conn *net.TCPConn, from source) *control {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.isClosed || t.waiting >= t.options.MaxWaiting || !t.files.take(connectionFiles) {
		reset(conn)
		return nil
	}
	now := time.Now()
	t.last++
	t.waiting++
	c := &connection{conn: conn, number: t.last, from: from, takeBy: now.Add(t.options.TakeTimeout), watched: make(chan struct{})}
	t.open[c.number] = c
	if t.control != nil {
		t.announce(c)
	} else {
		c.waitUntil(now.Add(t.options.AbsenceTimeout))
	}
	go t.watch(c)
	return t.control
}

// announce tells the egress process of a connection. The caller holds mu.
func (t *connections) announce(c *connection) {
	c.isAnnounced = true
	c.waitUntil(c.takeBy)
	t.control.add("connection", wire.Fields{"connection": c.number, "name": c.from.name, "port": c.from.port, "via": c.from.via})
}

// waitUntil sets the deadline, or an earlier one.
func (c *connection) waitUntil(at time.Time) {
	if at.After(c.takeBy) {
		at = c.takeBy
	}
	c.deadline = at
	c.conn.SetReadDeadline(at)
}

// watch removes a connection when the program is gone or the deadline passes, and returns when the connection no longer
// waits.
func (t *connections) watch(c *connection) {
	defer close(c.watched)
	for {
		isGone := awaitGone(c.conn)
		t.mu.Lock()
		switch {
		case c.isTaken || t.open[c.number] != c:
			t.mu.Unlock()
			return
		case !isGone && time.Now().Before(c.deadline):
			t.mu.Unlock() // the deadline was moved
			continue
		}
		t.remove(c)
		if c.isAnnounced {
			t.control.add("closed", wire.Fields{"connection": c.number})
		}
		t.mu.Unlock()
		reset(c.conn)
		return
	}
}

// awaitGone waits until the program has reset the connection, or has closed it without sending anything; false if the
// deadline passes or the connection is closed here. It reads nothing. A program that has sent bytes and then ended its
// direction may wait for an answer, so it is not gone.
func awaitGone(conn *net.TCPConn) (isGone bool) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return false
	}
	raw.Read(func(fd uintptr) bool {
		var first [1]byte
		n, _, err := syscall.Recvfrom(int(fd), first[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		isEmpty := err == nil && n == 0
		isGone = isEmpty || sys.IsDead(int32(fd))
		return isGone
	})
	return isGone
}

// remove forgets a connection, which somebody else closes. The caller holds mu.
func (t *connections) remove(c *connection) {
	if t.open[c.number] != c {
		return
	}
	delete(t.open, c.number)
	t.files.release(connectionFiles)
	if !c.isTaken {
		t.waiting--
	}
}

// take hands a waiting connection over to the caller, who calls finish in the end.
func (t *connections) take(number uint64) (*connection, error) {
	t.mu.Lock()
	c := t.open[number]
	if c == nil || c.isTaken {
		t.mu.Unlock()
		return nil, wire.Invalid("connection %d does not wait", number)
	}
	c.isTaken = true
	t.waiting--
	t.mu.Unlock()
	c.conn.SetReadDeadline(time.Unix(1, 0)) // ends the watch
	<-c.watched
	c.conn.SetReadDeadline(time.Time{})
	return c, nil
}

// finish ends a connection that was taken.
func (t *connections) finish(c *connection) {
	t.mu.Lock()
	t.remove(c)
	t.mu.Unlock()
	c.conn.Close()
}

// refuse resets a connection, whether it was taken or not. An unknown number is no error: the program may have closed
// the connection meanwhile.
func (t *connections) refuse(number uint64) {
	t.mu.Lock()
	c := t.open[number]
	if c != nil {
		t.remove(c)
	}
	t.mu.Unlock()
	if c != nil {
		reset(c.conn)
	}
}

// begin announces all connections that wait on a control stream. On one that has begun before, it announces nothing.
func (t *connections) begin(c *control) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.control == c {
		return
	}
	t.control = c
	for _, waiting := range t.inOrder() {
		t.announce(waiting)
	}
}

func (t *connections) inOrder() []*connection {
	list := make([]*connection, 0, t.waiting)
	for _, c := range t.open {
		if !c.isTaken {
			list = append(list, c)
		}
	}
	sort.Slice(list, func(i, j int) bool { return list[i].number < list[j].number })
	return list
}

// end lets the connections wait for another control stream if this one is the present one.
func (t *connections) end(c *control) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.control != c {
		return
	}
	t.control = nil
	deadline := time.Now().Add(t.options.AbsenceTimeout)
	for _, waiting := range t.inOrder() {
		waiting.isAnnounced = false
		waiting.waitUntil(deadline)
	}
}

func (t *connections) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.isClosed = true
	for _, c := range t.open {
		t.remove(c)
		reset(c.conn)
	}
}

// reset closes a connection so that the program sees that it has not ended in order.
func reset(conn *net.TCPConn) {
	conn.SetLinger(0)
	conn.Close()
}
