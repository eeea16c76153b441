package egress

import (
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"sandglass/runner/internal/wire"
)

func TestWaitingConnectionsAreBounded(t *testing.T) {
	f := open(t, func(o *Options) { o.MaxWaiting = 3 })
	c := f.connect(1)
	var numbers []any
	for i := 0; i < 3; i++ {
		_, m := f.connected(c)
		numbers = append(numbers, m["connection"])
	}
	if err := f.isResetAtOnce(); err != nil {
		t.Error(err)
	}
	f.take(numbers[0]) // makes room
	f.connected(c)
}

func TestConnectionsLeaveDescriptorsForTheRest(t *testing.T) {
	f := open(t, nil)
	c := f.connect(1)
	f.connections.files.left.Store(connectionFiles + 1)
	program, m := f.connected(c)
	if err := f.isResetAtOnce(); err != nil {
		t.Error(err)
	}
	if got := f.allowed(c, "a.example", tlsPort, webPort); got != "SERVFAIL" {
		t.Errorf("a name whose second listener is one too many: %s", got)
	}
	c.expect("bind_failed")
	c.send("refuse", wire.Fields{"connection": m["connection"]})
	isReset(program)
	if got := f.resolve("a.example"); got != f.options.FirstName.String() {
		t.Errorf("afterwards: %s", got)
	}
}

func TestTwoThousandConnectionsAtOnce(t *testing.T) {
	const many = 2000
	f := open(t, nil)
	c := f.connect(1)
	address := f.allowed(c, "a.example", tlsPort)
	programs := make([]*net.TCPConn, many)
	for i := range programs {
		programs[i] = f.program(address, tlsPort)
	}
	var done sync.WaitGroup
	for range programs {
		m := c.expect("connection")
		stream := f.take(m["connection"])
		done.Add(1)
		go func() { // echoes
			defer done.Done()
			io.Copy(stream.conn, stream.in.Buf)
			stream.conn.CloseWrite()
		}()
	}
	if open, waiting := f.numbers(); open != many || waiting != 0 {
		t.Errorf("%d open, %d waiting", open, waiting)
	}
	for i, program := range programs {
		fmt.Fprintf(program, "program %d", i)
		program.CloseWrite()
	}
	for i, program := range programs {
		if got, err := io.ReadAll(program); string(got) != fmt.Sprintf("program %d", i) {
			t.Fatalf("program %d got %q, %v", i, got, err)
		}
	}
	done.Wait()
	f.eventually("all are forgotten", func() bool { open, _ := f.numbers(); return open == 0 })
}

func TestAClientThatReadsNothingStopsTheRunnerFromAccepting(t *testing.T) {
	f := open(t, nil)
	c, _ := f.stream("control", nil)
	c.conn.SetReadBuffer(1 << 10)
	f.configure(c, 1)
	stop := make(chan struct{})
	var flood sync.WaitGroup
	for i := 0; i < 4; i++ {
		flood.Add(1)
		go func() {
			defer flood.Done()
			for {
				select {
				case <-stop:
					return
				default:
				}
				conn, err := net.DialTimeout("tcp4", fmt.Sprintf("%s:%d", f.options.Refused, tlsPort), 50*time.Millisecond)
				if err == nil {
					reset(conn.(*net.TCPConn))
				}
			}
		}()
	}
	queued := func() int {
		f.mu.Lock()
		control := f.control
		f.mu.Unlock()
		control.mu.Lock()
		defer control.mu.Unlock()
		return len(control.queue)
	}
	f.eventually("the queue is full", func() bool { return queued() > highWater })
	f.connections.mu.Lock()
	first := f.connections.last
	f.connections.mu.Unlock()
	close(stop)
	flood.Wait()
	// Each of the two listeners may accept one more before it waits.
	f.connections.mu.Lock()
	last := f.connections.last
	f.connections.mu.Unlock()
	if last-first > 4 {
		t.Errorf("%d connections were accepted meanwhile", last-first)
	}
	if queued() > 2*highWater {
		t.Errorf("%d bytes are queued", queued())
	}
	go io.Copy(io.Discard, c.conn)
	f.eventually("the queue is sent", func() bool { return queued() == 0 })
}
