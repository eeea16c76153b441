package guest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"sync"
)

const (
	controlPort  = "sandglass.control"
	carrierPort  = "sandglass.mux"
	egressPort   = "sandglass.egress" // the egress process reaches the runner there
	maxLineBytes = 1 << 20
)

// A control is the port on which the daemon talks to the first process of the machine. Both sides send lines of JSON. A client begins with
// an empty line, which ends an incomplete line of the client before. Lines that are no request are dropped.
type control struct {
	in *bufio.Reader

	mu  sync.Mutex // held across one line
	out io.Writer
}

// A request is a message after the configuration: stats (with an id), clock (with clock_ms) or end. Unknown fields are ignored, because a
// machine outlives its daemon: the next daemon may be of a later version.
type request struct {
	Type    string `json:"type"`
	ID      string `json:"id,omitempty"`
	ClockMs int64  `json:"clock_ms,omitempty"`
}

// A started message is the answer to the configuration: type started, or failed with the error.
type started struct {
	Type  string `json:"type"`
	Error string `json:"error,omitempty"`
}

// A statsReply is the answer to a stats request and has its id.
type statsReply struct {
	Type string `json:"type"`
	ID   string `json:"id"`
	stats
}

func openControl() (*control, error) {
	p, err := openPort(controlPort)
	if err != nil {
		return nil, err
	}
	return &control{in: bufio.NewReaderSize(p, 64<<10), out: p}, nil
}

// awaitConfig returns the configuration, parsed and as the line that came.
func (c *control) awaitConfig() (*config, []byte, error) {
	for {
		line, err := c.line()
		if err != nil {
			return nil, nil, fmt.Errorf("wait for the configuration: %w", err)
		}
		if len(line) > 0 {
			cfg, err := parseConfig(line)
			return cfg, line, err
		}
	}
}

// serve answers requests as long as the machine runs.
func (c *control) serve(s *session) {
	for {
		line, err := c.line()
		if err != nil {
			say("control: %v", err)
			return
		}
		r := &request{}
		if len(line) == 0 || json.Unmarshal(line, r) != nil {
			continue
		}
		switch r.Type {
		case "stats":
			c.send(statsReply{"stats", r.ID, groupStats(workGroup, s.pid)})
		case "clock":
			if r.ClockMs > 0 {
				setClock(r.ClockMs)
			}
		case "end":
			s.end()
		}
	}
}

func (c *control) line() ([]byte, error) {
	var line []byte
	for {
		part, err := c.in.ReadSlice('\n')
		line = append(line, part...)
		if err == nil {
			return line[:len(line)-1], nil
		}
		if err != bufio.ErrBufferFull {
			return nil, err
		}
		if len(line) > maxLineBytes {
			return nil, fmt.Errorf("a line of more than %d bytes", maxLineBytes)
		}
	}
}

// send drops the message if no client reads it.
func (c *control) send(message any) {
	line, err := json.Marshal(message)
	if err != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.out.Write(append(line, '\n'))
}
