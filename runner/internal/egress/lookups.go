package egress

import (
	"sync"
	"time"

	"sandglass/runner/internal/wire"
)

const (
	maxAnswers = 8192 // that are cached
	// missingTime is how long a name that does not exist is not asked about again. A refusal holds until the policy
	// changes, but a name may come into being at any time.
	missingTime = 30 * time.Second
)

// The kinds of answers about a name.
const (
	answerAddress = "address"
	answerRefused = "refused"
	answerMissing = "nxdomain"
	answerFailed  = "failed"
)

// An answer is what the egress process says about a name.
type answer struct {
	kind  string
	ports []int
	until time.Time // zero: until the next generation
}

// A lookup is a question to the egress process, for all that ask for the same name meanwhile.
type lookup struct {
	name    string
	query   uint64
	timeout *time.Timer
	done    chan struct{} // closed when the answer is set
	answer  answer
}

// lookups ask the egress process about names and cache its answers for one generation of the policy.
type lookups struct {
	timeout time.Duration

	mu         sync.Mutex
	control    *control // nil: every lookup fails
	generation uint64
	answers    map[string]answer
	underWay   map[string]*lookup
	queries    map[uint64]*lookup
	last       uint64 // number of a query
}

func newLookups(timeout time.Duration) *lookups {
	return &lookups{timeout: timeout, answers: map[string]answer{}, underWay: map[string]*lookup{}, queries: map[uint64]*lookup{}}
}

// get returns the answer about a name, from the cache or from the egress process.
func (l *lookups) get(name string) answer {
	l.mu.Lock()
	if l.control == nil {
		l.mu.Unlock()
		return answer{kind: answerFailed}
	}
	if known, ok := l.answers[name]; ok && (known.until.IsZero() || time.Now().Before(known.until)) {
		l.mu.Unlock()
		return known
	}
	asked := l.underWay[name]
	if asked == nil {
		asked = l.ask(name)
	}
	l.mu.Unlock()
	<-asked.done
	return asked.answer
}

func (l *lookups) ask(name string) *lookup {
	l.last++
	asked := &lookup{name: name, query: l.last, done: make(chan struct{})}
	l.underWay[name], l.queries[asked.query] = asked, asked
	asked.timeout = time.AfterFunc(l.timeout, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.finish(asked, answer{kind: answerFailed})
	})
	l.control.add("resolve", wire.Fields{"query": asked.query, "name": name})
	return asked
}

// finish gives a lookup its answer, unless it has one. The caller holds mu.
func (l *lookups) finish(asked *lookup, given answer) {
	if l.queries[asked.query] != asked {
		return
	}
	delete(l.queries, asked.query)
	delete(l.underWay, asked.name)
	asked.timeout.Stop()
	asked.answer = given
	close(asked.done)
}

// resolved takes an answer of the egress process. An answer of an earlier generation is used once and not cached.
func (l *lookups) resolved(query, generation uint64, given answer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	asked := l.queries[query]
	if asked == nil {
		return
	}
	if given.kind == answerMissing {
		given.until = time.Now().Add(missingTime)
	}
	if generation == l.generation && given.kind != answerFailed {
		l.keep(asked.name, given)
	}
	l.finish(asked, given)
}

// keep caches an answer. If the cache is full, any other answer is dropped for it.
func (l *lookups) keep(name string, given answer) {
	if _, ok := l.answers[name]; !ok && len(l.answers) >= maxAnswers {
		for other := range l.answers {
			delete(l.answers, other)
			break
		}
	}
	l.answers[name] = given
}

// begin makes a control stream the one that is asked, and starts a generation without cached answers.
func (l *lookups) begin(c *control, generation uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.control, l.generation = c, generation
	l.answers = map[string]answer{}
}

// end fails all lookups if the control stream is the one that was asked.
func (l *lookups) end(c *control) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.control != c {
		return
	}
	l.control = nil
	for _, asked := range l.queries {
		l.finish(asked, answer{kind: answerFailed})
	}
}

// tell sends a message on the control stream, if there is one.
func (l *lookups) tell(kind string, f wire.Fields) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.control != nil {
		l.control.add(kind, f)
	}
}
