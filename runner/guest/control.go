package guest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"sync"
)

const (
	controlPort  = "sandglass.control"
	carrierPort  = "sandglass.mux"
	maxLineBytes = 1 << 20
)

// A control is the port on which the daemon speaks to the machine itself. Both sides send lines of JSON. A daemon that comes anew begins
// with an empty line, which ends whatever the one before left unfinished; lines that are no request are dropped.
type control struct {
	in *bufio.Reader

	mu  sync.Mutex // held across one line
	out *port
}

type request struct {
	ID   string `json:"id"`
	Type string `json:"type"`
}

func openControl() (*control, error) {
	p, err := openPort(controlPort)
	if err != nil {
		return nil, err
	}
	return &control{in: bufio.NewReaderSize(p, 64<<10), out: p}, nil
}

// awaitConfig gives the configuration, and as it came.
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

// serve answers for as long as the machine lives.
func (c *control) serve(s *session) {
	for {
		line, err := c.line()
		if err != nil {
			say("control: %v", err)
			return
		}
		r := &request{}
		if json.Unmarshal(line, r) != nil {
			continue
		}
		switch r.Type {
		case "stats":
			answer := groupStats(s.pid)
			answer["id"], answer["type"] = r.ID, "stats"
			c.send(answer)
		case "clock":
			clock := &config{}
			if json.Unmarshal(line, clock) == nil && clock.ClockMs > 0 {
				setClock(clock.ClockMs)
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

// send drops what nobody is there to read.
func (c *control) send(message map[string]any) {
	line, err := json.Marshal(message)
	if err != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.out.Write(append(line, '\n'))
}
