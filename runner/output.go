package main

import (
	"io"
	"sync"
	"time"
)

const slowReaderAfter = 30 * time.Second

var errSlowReader = &runnerError{codeSlowReader, "the reader fell too far behind and was cut off", nil}

// An output keeps the recent bytes of one stream and passes them to readers.
// While a reader is attached the writer waits for it, so that it misses
// nothing; a reader that takes nothing for 30 seconds is cut off.
type output struct {
	max      int
	patience time.Duration // with a reader that takes nothing

	mu      sync.Mutex
	changed *sync.Cond
	ring    []byte // grows to max, then wraps: byte n of the stream is at n % max
	end     int64  // bytes written so far
	closed  bool
	hold    bool // wait for the first reader before dropping anything
	wasRead bool // somebody has attached
	readers map[*outputReader]bool
}

// An outputReader is one reader's place in an output. It belongs to one goroutine.
type outputReader struct {
	out   *output
	at    int64
	kept  int64 // where the output ended when it attached: what comes before is old
	isNew bool  // nobody had attached before
	moved time.Time
	err   error  // why it was cut off
	onCut func() // called once when it is cut off; may be nil
}

func newOutput(max int, hold bool) *output {
	o := &output{max: max, patience: slowReaderAfter, hold: hold, readers: map[*outputReader]bool{}}
	o.changed = sync.NewCond(&o.mu)
	return o
}

// write appends p, waiting for attached readers to make room.
func (o *output) write(p []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	since := time.Now()
	for len(p) > 0 && !o.closed {
		n := min(len(p), o.room())
		if n <= 0 {
			o.waitForReaders(since)
			continue
		}
		o.append(p[:n])
		p = p[n:]
		o.changed.Broadcast()
	}
}

// room is how many bytes can be written before a reader would miss some.
func (o *output) room() int {
	room := o.max
	for r := range o.readers {
		room = min(room, int(r.at+int64(o.max)-o.end))
	}
	if o.hold {
		room = min(room, o.max-int(o.end))
	}
	return room
}

// waitForReaders waits for a change and cuts off readers that have stood still
// for too long while the writer waited.
func (o *output) waitForReaders(since time.Time) {
	if len(o.readers) > 0 {
		timer := time.AfterFunc(o.patience/10, func() {
			o.mu.Lock()
			o.changed.Broadcast()
			o.mu.Unlock()
		})
		defer timer.Stop()
	}
	o.changed.Wait()
	for r := range o.readers {
		stuck := r.at+int64(o.max) <= o.end
		if stuck && time.Since(since) > o.patience && time.Since(r.moved) > o.patience {
			r.err = errSlowReader
			delete(o.readers, r)
			o.changed.Broadcast()
			if r.onCut != nil {
				r.onCut()
			}
		}
	}
}

func (o *output) append(p []byte) {
	if grow := o.max - len(o.ring); grow > 0 {
		n := min(grow, len(p))
		o.ring = append(o.ring, p[:n]...)
		o.end += int64(n)
		p = p[n:]
	}
	for len(p) > 0 {
		n := copy(o.ring[o.end%int64(o.max):], p)
		o.end += int64(n)
		p = p[n:]
	}
}

// position is the offset of the next byte to be written.
func (o *output) position() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.end
}

// close ends the stream; readers get what is left and then io.EOF.
func (o *output) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	o.changed.Broadcast()
}

// attach adds a reader that starts at the oldest kept byte at or after from.
func (o *output) attach(from int64) *outputReader {
	o.mu.Lock()
	defer o.mu.Unlock()
	oldest := o.end - int64(len(o.ring))
	if from < oldest {
		from = oldest
	}
	if from > o.end {
		from = o.end
	}
	r := &outputReader{out: o, at: from, kept: o.end, isNew: !o.wasRead, moved: time.Now()}
	o.readers[r] = true
	o.hold, o.wasRead = false, true
	o.changed.Broadcast()
	return r
}

func (r *outputReader) detach() {
	r.out.mu.Lock()
	defer r.out.mu.Unlock()
	delete(r.out.readers, r)
	if r.err == nil {
		r.err = io.ErrClosedPipe
	}
	r.out.changed.Broadcast()
}

// next waits for bytes, copies some into p and moves past them. It reads as far as until says, of the end of what was written so far,
// and returns io.EOF there if that is the end, or at the end of the stream.
func (r *outputReader) next(p []byte, until func(end int64) (limit int64, isEnd bool)) (offset int64, n int, err error) {
	o := r.out
	o.mu.Lock()
	defer o.mu.Unlock()
	for {
		last, isEnd := until(o.end)
		switch {
		case r.err != nil:
			return r.at, 0, r.err
		case r.at < last:
			from := int(r.at % int64(o.max))
			n := copy(p[:min(len(p), int(last-r.at))], o.ring[from:])
			offset, r.at, r.moved = r.at, r.at+int64(n), time.Now()
			o.changed.Broadcast()
			return offset, n, nil
		case isEnd || o.closed && last >= o.end:
			return r.at, 0, io.EOF
		}
		o.changed.Wait()
	}
}

// noLimit is for next: read whatever is there.
func noLimit(end int64) (limit int64, isEnd bool) { return end, false }

// endWithout is where the stream ends without up to n copies of the suffix.
func (o *output) endWithout(suffix string, n int) int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	end := o.end
	for ; n > 0; n-- {
		for i := range suffix {
			at := end - int64(len(suffix)-i)
			if at < o.end-int64(len(o.ring)) || o.ring[at%int64(o.max)] != suffix[i] {
				return end
			}
		}
		end -= int64(len(suffix))
	}
	return end
}

// wake makes readers look at their limit again.
func (o *output) wake() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.changed.Broadcast()
}
