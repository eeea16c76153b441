package main

import "sync"

// turns keeps a line in front of every shell: whoever joins first goes first,
// whether or not the shell is there yet.
type turns struct {
	mu   sync.Mutex
	last map[string]chan struct{} // closed when the last one in line is done
}

// A turn is a place in a line.
type turn struct {
	before <-chan struct{} // nil: nobody is before
	end    func()
}

func (t *turns) join(name string) *turn {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.last == nil {
		t.last = map[string]chan struct{}{}
	}
	mine := make(chan struct{})
	before := t.last[name]
	t.last[name] = mine
	return &turn{before: before, end: func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.last[name] == mine {
			delete(t.last, name)
		}
		close(mine)
	}}
}

func (t *turn) wait() {
	if t.before != nil {
		<-t.before
	}
}
