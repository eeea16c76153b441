package runnertest

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"sandglass/runner/internal/wire"
)

// Fill sends input until the runner accepts no more.
func (c *Client) Fill() {
	c.t.Helper()
	c.Conn.SetWriteDeadline(time.Now().Add(time.Second))
	line := fmt.Sprintf(`{"type":"stdin","bytes":%d}`+"\n", 8<<20)
	_, err := c.Conn.Write(append([]byte(line), bytes.Repeat([]byte("x"), 8<<20)...))
	if !os.IsTimeout(err) {
		c.t.Fatalf("8 MiB of input that nobody reads were taken: %v", err)
	}
}

// AttachedTo is the number of terminals that are attached to the shell main.
func (c *Client) AttachedTo() any {
	f, _ := c.Call("shell.list", nil)
	return f["shells"].([]any)[0].(map[string]any)["attached"]
}

const PrintedQueries = `\033[c\033[6n\033]11;?\007\033P+q544e\033\\`

const Queries = "\x1b[c\x1b[6n\x1b]11;?\x07\x1bP+q544e\x1b\\"

// A Screen collects what an attached terminal shows.
type Screen struct {
	C    *Client
	Mu   sync.Mutex
	text string
	Exit wire.Fields
}

func (s *Sandbox) AttachShell(args wire.Fields) *Screen {
	s.T.Helper()
	c := s.Dial()
	if f, _ := c.Call("shell.attach", args); f["shell"] == nil {
		s.T.Fatalf("attach: %v", f)
	}
	v := &Screen{C: c}
	go func() {
		for {
			f, body := c.Receive()
			v.Mu.Lock()
			v.text += string(body)
			if f == nil || f["type"] == "exit" {
				v.Exit = f
				v.Mu.Unlock()
				return
			}
			v.Mu.Unlock()
		}
	}()
	return v
}

func (v *Screen) Key(text string) { v.C.Send(wire.Fields{"type": "stdin"}, []byte(text)) }

// Shows waits until the screen has shown the text, and forgets everything up to it.
func (v *Screen) Shows(text string) {
	v.C.t.Helper()
	Eventually(v.C.t, fmt.Sprintf("the screen shows %q", text), func() bool {
		v.Mu.Lock()
		defer v.Mu.Unlock()
		_, rest, found := strings.Cut(v.text, text)
		if found {
			v.text = rest
		}
		return found
	})
}

const Prompt = "ready> "
