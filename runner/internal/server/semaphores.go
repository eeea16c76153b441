package server

import (
	"sandglass/runner/internal/wire"
)

// maxConcurrent is how many requests of one connection run at once; one more waits to be read.
const maxConcurrent = 256

// longLasting are the requests that may last for as long as a program of the sandbox likes. They have places of their own, so that
// they never keep another request from being answered, and one more is refused.
var longLasting = map[string]struct {
	places int
	what   string
}{
	"exec":          {256, "commands"},
	"process.stdin": {64, "writes to stdin"},
}

// semaphores are the places of one connection's requests.
type semaphores struct {
	short chan struct{}
	long  map[string]chan struct{}
}

func newSemaphores() *semaphores {
	s := &semaphores{short: make(chan struct{}, maxConcurrent), long: map[string]chan struct{}{}}
	for kind, p := range longLasting {
		s.long[kind] = make(chan struct{}, p.places)
	}
	return s
}

// acquire gives a request its place; release gives it back.
func (s *semaphores) acquire(kind string) (release func(), err error) {
	places, ok := s.long[kind]
	if !ok {
		s.short <- struct{}{}
		return func() { <-s.short }, nil
	}
	select {
	case places <- struct{}{}:
		return func() { <-places }, nil
	default:
		return nil, wire.TooManyWaiting(longLasting[kind].what, cap(places))
	}
}
