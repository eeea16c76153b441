package egress

import (
	"fmt"
	"os"
	"sync"
	"time"

	"sandglass/runner/internal/wire"
)

const (
	maxPorts  = 256      // of one name; a name with more fails
	highWater = 64 << 10 // unsent bytes of a control stream beyond which no more connections are accepted
	// slowTimeout is how long a client may read nothing.
	slowTimeout = 30 * time.Second
)

// A control is a control stream. The messages to the client are queued, so that nobody waits for the client while
// holding a lock. The queue is bounded by those who fill it: 256 lookups at once, and for each connection that waits
// one message when it comes and one when it goes; accepting stops while the queue is long.
type control struct {
	stream *wire.Stream

	mu      sync.Mutex
	changed *sync.Cond
	queue   []byte // encoded messages
	isEnded bool
}

// serveControl answers a control request. The newest control stream is the only one.
func (e *Egress) serveControl(s *wire.Stream, _ *wire.Request) error {
	c := &control{stream: s}
	c.changed = sync.NewCond(&c.mu)
	e.replaceControl(c)
	defer e.endControl(c)
	if err := s.Reply(wire.Fields{"ok": true}); err != nil {
		return err
	}
	go c.send()
	for isConfigured := false; ; isConfigured = true {
		m, err := s.Next()
		if err != nil {
			return err
		}
		if !isConfigured && m.Type != "config" {
			return wire.Invalid("the first message must be config, not %q", m.Type)
		}
		if err := e.receive(c, m); err != nil {
			return err
		}
	}
}

// receive handles one message of the client.
func (e *Egress) receive(c *control, m *wire.Message) error {
	var fields struct {
		Generation uint64 `json:"generation"`
		Query      uint64 `json:"query"`
		Answer     string `json:"answer"`
		Ports      []int  `json:"ports"`
		Connection uint64 `json:"connection"`
	}
	if err := m.Decode(&fields); err != nil {
		return err
	}
	switch m.Type {
	case "config":
		e.configure(c, fields.Generation)
	case "resolved":
		given := answer{kind: fields.Answer, ports: fields.Ports}
		if err := given.check(); err != nil {
			return err
		}
		e.lookups.resolved(fields.Query, fields.Generation, given)
	case "refuse":
		e.connections.refuse(fields.Connection)
	default:
		return wire.Invalid("unknown message %q", m.Type)
	}
	return nil
}

// configure starts a generation. A control stream that was replaced meanwhile starts none.
func (e *Egress) configure(c *control, generation uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.control == c {
		e.lookups.begin(c, generation)
		e.connections.begin(c)
	}
}

// check rejects an answer that violates the protocol.
func (a *answer) check() error {
	switch a.kind {
	case answerAddress:
	case answerRefused, answerMissing, answerFailed:
		a.ports = nil
	default:
		return wire.Invalid("unknown answer %q", a.kind)
	}
	if len(a.ports) > maxPorts {
		*a = answer{kind: answerFailed} // the policy may name as many; other names are not affected
	}
	for _, port := range a.ports {
		if port < 1 || port > 65535 {
			return wire.Invalid("ports must be 1 to 65535")
		}
	}
	return nil
}

// replaceControl ends the previous control stream.
func (e *Egress) replaceControl(c *control) {
	e.mu.Lock()
	previous := e.control
	e.control = c
	e.mu.Unlock()
	if previous != nil {
		e.endControl(previous)
		previous.stream.Conn.Close()
	}
}

// endControl lets nothing wait for a control stream any more. Ending it twice is the same as once.
func (e *Egress) endControl(c *control) {
	e.mu.Lock()
	if e.control == c {
		e.control = nil
	}
	e.mu.Unlock()
	e.lookups.end(c)
	e.connections.end(c)
	c.end()
}

// add queues a message. It never waits.
func (c *control) add(kind string, f wire.Fields) {
	line, err := wire.EncodeLine(kind, "", f, -1)
	if err != nil {
		fmt.Fprintln(os.Stderr, "runner: egress:", err) // strings and numbers can always be encoded
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.isEnded {
		c.queue = append(c.queue, line...)
		c.changed.Broadcast()
	}
}

// wait returns when the queue is short or the stream has ended.
func (c *control) wait() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.queue) > highWater && !c.isEnded {
		c.changed.Wait()
	}
}

// send sends the queue, many messages at a time, until the stream ends.
func (c *control) send() {
	for {
		c.mu.Lock()
		for len(c.queue) == 0 && !c.isEnded {
			c.changed.Wait()
		}
		lines := c.queue
		c.queue = nil
		isEnded := c.isEnded
		c.changed.Broadcast()
		c.mu.Unlock()
		if isEnded {
			return
		}
		slow := time.AfterFunc(slowTimeout, func() { c.stream.Conn.Close() })
		err := c.stream.Out.Lines(lines)
		slow.Stop()
		if err != nil {
			c.stream.Conn.Close() // ends the reader, too
			return
		}
	}
}

func (c *control) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.isEnded, c.queue = true, nil
	c.changed.Broadcast()
}
