package main

// maxConcurrent is how many requests of one connection run at once; one more waits to be read.
const maxConcurrent = 256

// patient are the requests that may last for as long as a program of the sandbox likes. They have places of their own, so that
// they never keep another request from being answered, and one more is refused.
var patient = map[string]struct {
	places int
	what   string
}{
	"exec":          {256, "commands"},
	"process.stdin": {64, "writes to stdin"},
}

// slots are the places of one connection's requests.
type slots struct {
	quick   chan struct{}
	patient map[string]chan struct{}
}

func newSlots() *slots {
	s := &slots{quick: make(chan struct{}, maxConcurrent), patient: map[string]chan struct{}{}}
	for kind, p := range patient {
		s.patient[kind] = make(chan struct{}, p.places)
	}
	return s
}

// take gives a request its place; release gives it back.
func (s *slots) take(kind string) (release func(), err error) {
	places, ok := s.patient[kind]
	if !ok {
		s.quick <- struct{}{}
		return func() { <-s.quick }, nil
	}
	select {
	case places <- struct{}{}:
		return func() { <-places }, nil
	default:
		return nil, tooManyWaiting(patient[kind].what, cap(places))
	}
}
