// Package stdio keeps the output of programs for the clients that attach to them, and passes the input of clients to
// programs.
package stdio

import (
	"io"
	"sync"
	"time"

	"sandglass/runner/internal/wire"
)

const slowReaderAfter = 30 * time.Second

// ErrSlowReader is returned to a reader that was cut off.
var ErrSlowReader = wire.NewError(wire.CodeSlowReader, "the reader fell too far behind and was cut off", nil)

// An Output keeps the recent bytes of one stream and passes them to readers. While a reader is attached the writer
// waits for it, so that the reader misses nothing. A reader that reads nothing for 30 seconds is cut off.
type Output struct {
	max           int
	readerTimeout time.Duration // after which a reader that reads nothing is cut off

	mu             sync.Mutex
	changed        *sync.Cond
	ring           []byte // grows to max, then wraps; index says where a byte is
	base           int64  // offset of the byte that was written to the start of the ring first
	end            int64  // bytes written so far
	isKept         bool   // do not drop anything that is not acknowledged
	acknowledged   int64  // a client has stored all bytes before this offset
	closed         bool
	waitsForReader bool // do not drop anything before the first reader has attached
	wasRead        bool // a reader has attached
	readers        map[*Reader]bool
}

// A Reader is the position of one reader in an output. It belongs to one goroutine.
type Reader struct {
	out    *Output
	at     int64
	oldEnd int64 // end of the output when the reader attached
	IsNew  bool  // no reader had attached before
	moved  time.Time
	err    error  // why it was cut off
	onCut  func() // called once when it is cut off; may be nil
}

func NewOutput(max int, waitsForReader bool) *Output {
	o := &Output{max: max, readerTimeout: slowReaderAfter, waitsForReader: waitsForReader, readers: map[*Reader]bool{}}
	o.changed = sync.NewCond(&o.mu)
	return o
}

// Write appends p. It waits while an attached reader would miss bytes.
func (o *Output) Write(p []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	since := time.Now()
	for len(p) > 0 && !o.closed {
		n := min(len(p), o.writable())
		if n <= 0 {
			o.waitForReaders(since)
			continue
		}
		o.append(p[:n])
		p = p[n:]
		o.changed.Broadcast()
	}
}

// writable counts the bytes that can be written before a reader would miss some.
func (o *Output) writable() int {
	free := o.max
	for r := range o.readers {
		free = min(free, int(r.at+int64(o.max)-o.end))
	}
	if o.waitsForReader {
		free = min(free, o.max-int(o.end))
	}
	if o.isKept {
		free = min(free, int(o.acknowledged+int64(o.max)-o.end))
	}
	return free
}

// waitForReaders waits for a change. It cuts off readers that have not read for too long while the writer waited.
func (o *Output) waitForReaders(since time.Time) {
	if len(o.readers) > 0 {
		timer := time.AfterFunc(o.readerTimeout/10, func() {
			o.mu.Lock()
			o.changed.Broadcast()
			o.mu.Unlock()
		})
		defer timer.Stop()
	}
	o.changed.Wait()
	for r := range o.readers {
		// A kept output is full before its reader would miss bytes; then a reader is stuck that leaves some unread.
		stuck := r.at+int64(o.max) <= o.end || o.isKept && r.at < o.end
		if stuck && time.Since(since) > o.readerTimeout && time.Since(r.moved) > o.readerTimeout {
			r.err = ErrSlowReader
			delete(o.readers, r)
			o.changed.Broadcast()
			if r.onCut != nil {
				r.onCut()
			}
		}
	}
}

func (o *Output) append(p []byte) {
	if grow := o.max - len(o.ring); grow > 0 {
		n := min(grow, len(p))
		o.ring = append(o.ring, p[:n]...)
		o.end += int64(n)
		p = p[n:]
	}
	for len(p) > 0 {
		n := copy(o.ring[o.index(o.end):], p)
		o.end += int64(n)
		p = p[n:]
	}
}

// index is the place of a byte in the ring.
func (o *Output) index(offset int64) int { return int((offset - o.base) % int64(o.max)) }

// oldest is the offset of the oldest byte in the ring.
func (o *Output) oldest() int64 { return o.end - int64(len(o.ring)) }

// Position is the offset of the next byte to be written.
func (o *Output) Position() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.end
}

// Close ends the stream. Readers get the remaining bytes and then io.EOF.
func (o *Output) Close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	o.release()
	o.changed.Broadcast()
}

// attach adds a reader that starts at the oldest byte at or after from that is kept and not acknowledged.
func (o *Output) attach(from int64) *Reader {
	o.mu.Lock()
	defer o.mu.Unlock()
	if oldest := o.oldest(); from < oldest {
		from = oldest
	}
	if from < o.acknowledged {
		from = o.acknowledged
	}
	if from > o.end {
		from = o.end
	}
	r := &Reader{out: o, at: from, oldEnd: o.end, IsNew: !o.wasRead, moved: time.Now()}
	o.readers[r] = true
	o.waitsForReader, o.wasRead = false, true
	o.changed.Broadcast()
	return r
}

func (r *Reader) Detach() {
	r.out.mu.Lock()
	defer r.out.mu.Unlock()
	delete(r.out.readers, r)
	if r.err == nil {
		r.err = io.ErrClosedPipe
	}
	r.out.release()
	r.out.changed.Broadcast()
}

// Next waits for bytes, copies some into p and advances. until maps the current end of the output to the limit up to
// which it reads. At the limit it returns io.EOF if isEnd is set, otherwise it waits for a higher limit or the end of
// the stream.
func (r *Reader) Next(p []byte, until func(end int64) (limit int64, isEnd bool)) (offset int64, n int, err error) {
	o := r.out
	o.mu.Lock()
	defer o.mu.Unlock()
	for {
		last, isEnd := until(o.end)
		switch {
		case r.err != nil:
			return r.at, 0, r.err
		case r.at < last:
			n := copy(p[:min(len(p), int(last-r.at))], o.ring[o.index(r.at):])
			offset, r.at, r.moved = r.at, r.at+int64(n), time.Now()
			o.changed.Broadcast()
			return offset, n, nil
		case isEnd || o.closed && last >= o.end:
			return r.at, 0, io.EOF
		}
		o.changed.Wait()
	}
}

// NoLimit is the until of a reader that reads everything.
func NoLimit(end int64) (limit int64, isEnd bool) { return end, false }

// EndWithout is the end of the stream without up to n copies of the suffix at its end.
func (o *Output) EndWithout(suffix string, n int) int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	end := o.end
	for ; n > 0; n-- {
		for i := range suffix {
			at := end - int64(len(suffix)-i)
			if at < o.oldest() || o.ring[o.index(at)] != suffix[i] {
				return end
			}
		}
		end -= int64(len(suffix))
	}
	return end
}

// Update runs change while no reader evaluates its until function, and makes the readers evaluate it again.
func (o *Output) Update(change func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	change()
	o.changed.Broadcast()
}
