package server

import (
	"sandglass/runner/internal/wire"
)

// maxConcurrent is how many requests of one connection run at once. The next one is read when one of them is
// answered.
const maxConcurrent = 256

// longLasting are the requests that may last as long as a program of the sandbox likes. Each type has a limit of its
// own, so that they never delay other requests. Beyond the limit they are rejected.
var longLasting = map[string]struct {
	limit int
	what  string
}{
	"exec":          {256, "commands"},
	"process.stdin": {64, "writes to stdin"},
}

// semaphores limit the concurrent requests of one connection.
type semaphores struct {
	short chan struct{}
	long  map[string]chan struct{}
}

func newSemaphores() *semaphores {
	s := &semaphores{short: make(chan struct{}, maxConcurrent), long: map[string]chan struct{}{}}
	for kind, p := range longLasting {
		s.long[kind] = make(chan struct{}, p.limit)
	}
	return s
}

// acquire waits for a short request, and fails for a long-lasting one beyond its limit.
func (s *semaphores) acquire(kind string) (release func(), err error) {
	slots, ok := s.long[kind]
	if !ok {
		s.short <- struct{}{}
		return func() { <-s.short }, nil
	}
	select {
	case slots <- struct{}{}:
		return func() { <-slots }, nil
	default:
		return nil, wire.TooManyWaiting(longLasting[kind].what, cap(slots))
	}
}
