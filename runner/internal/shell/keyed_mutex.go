package shell

import (
	"sync"
)

// keyedMutex keeps a line in front of every shell: whoever joins first goes first,
// whether or not the shell is there yet.
type keyedMutex struct {
	mu      sync.Mutex
	tickets map[string][]*ticket
}

// A ticket is a place in a line.
type ticket struct {
	mutex *keyedMutex
	key   string
	held  chan struct{} // closed when nobody is before it
}

func (t *keyedMutex) queue(name string) *ticket {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.tickets == nil {
		t.tickets = map[string][]*ticket{}
	}
	mine := &ticket{mutex: t, key: name, held: make(chan struct{})}
	t.tickets[name] = append(t.tickets[name], mine)
	if len(t.tickets[name]) == 1 {
		close(mine.held)
	}
	return mine
}

// release gives the place up, before its turn has come or after it.
func (t *ticket) release() {
	t.mutex.mu.Lock()
	defer t.mutex.mu.Unlock()
	line := t.mutex.tickets[t.key]
	for i, other := range line {
		if other != t {
			continue
		}
		line = append(line[:i:i], line[i+1:]...)
		if i == 0 && len(line) > 0 {
			close(line[0].held)
		}
		break
	}
	if len(line) == 0 {
		delete(t.mutex.tickets, t.key)
		return
	}
	t.mutex.tickets[t.key] = line
}

func (t *ticket) wait() { <-t.held }

// isHeld tells whether nobody is before it.
func (t *ticket) isHeld() bool {
	select {
	case <-t.held:
		return true
	default:
		return false
	}
}
