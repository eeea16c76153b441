package main

import "sync"

// turns keeps a line in front of every shell: whoever joins first goes first,
// whether or not the shell is there yet.
type turns struct {
	mu    sync.Mutex
	lines map[string][]*turn
}

// A turn is a place in a line.
type turn struct {
	of   *turns
	name string
	come chan struct{} // closed when nobody is before it
}

func (t *turns) join(name string) *turn {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.lines == nil {
		t.lines = map[string][]*turn{}
	}
	mine := &turn{of: t, name: name, come: make(chan struct{})}
	t.lines[name] = append(t.lines[name], mine)
	if len(t.lines[name]) == 1 {
		close(mine.come)
	}
	return mine
}

// leave gives the place up, before its turn has come or after it.
func (t *turn) leave() {
	t.of.mu.Lock()
	defer t.of.mu.Unlock()
	line := t.of.lines[t.name]
	for i, other := range line {
		if other != t {
			continue
		}
		line = append(line[:i:i], line[i+1:]...)
		if i == 0 && len(line) > 0 {
			close(line[0].come)
		}
		break
	}
	if len(line) == 0 {
		delete(t.of.lines, t.name)
		return
	}
	t.of.lines[t.name] = line
}

func (t *turn) wait() { <-t.come }

// hasCome tells whether nobody is before it.
func (t *turn) hasCome() bool {
	select {
	case <-t.come:
		return true
	default:
		return false
	}
}
