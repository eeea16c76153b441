package shell

import (
	"sync"
)

// A keyedMutex is a FIFO mutex per shell name. It works whether or not the shell has been started.
type keyedMutex struct {
	mu      sync.Mutex
	tickets map[string][]*ticket
}

// A ticket is one acquisition of the mutex of a key, waiting or held.
type ticket struct {
	mutex *keyedMutex
	key   string
	held  chan struct{} // closed when the mutex is held
}

// queue joins the queue of a key.
func (m *keyedMutex) queue(key string) *ticket {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.tickets == nil {
		m.tickets = map[string][]*ticket{}
	}
	mine := &ticket{mutex: m, key: key, held: make(chan struct{})}
	m.tickets[key] = append(m.tickets[key], mine)
	if len(m.tickets[key]) == 1 {
		close(mine.held)
	}
	return mine
}

// release unlocks the mutex, or leaves the queue before holding it.
func (t *ticket) release() {
	t.mutex.mu.Lock()
	defer t.mutex.mu.Unlock()
	waiting := t.mutex.tickets[t.key]
	for i, other := range waiting {
		if other != t {
			continue
		}
		waiting = append(waiting[:i:i], waiting[i+1:]...)
		if i == 0 && len(waiting) > 0 {
			close(waiting[0].held)
		}
		break
	}
	if len(waiting) == 0 {
		delete(t.mutex.tickets, t.key)
		return
	}
	t.mutex.tickets[t.key] = waiting
}

func (t *ticket) wait() { <-t.held }

// isHeld tells whether the mutex is held, without waiting.
func (t *ticket) isHeld() bool {
	select {
	case <-t.held:
		return true
	default:
		return false
	}
}
