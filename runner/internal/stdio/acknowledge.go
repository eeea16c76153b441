package stdio

// NewKeptOutput returns an output that keeps every byte until a client acknowledges it. The writer waits while max
// bytes are unacknowledged, whether or not a reader is attached.
func NewKeptOutput(max int) *Output {
	o := NewOutput(max, false)
	o.isKept = true
	return o
}

// Acknowledge says that all bytes before the offset are stored elsewhere. An offset that is not above the last one, or
// is above the end of the output, is ignored: the client means another output.
func (o *Output) Acknowledge(offset int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if offset <= o.acknowledged || offset > o.end {
		return
	}
	o.acknowledged = offset
	o.release()
	o.changed.Broadcast()
}

// Acknowledged is the offset before which all bytes are acknowledged.
func (o *Output) Acknowledged() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.acknowledged
}

// HasUnacknowledged tells whether the output keeps bytes that no client has acknowledged.
func (o *Output) HasUnacknowledged() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.isKept && o.acknowledged < o.end
}

// Extend makes room for n more bytes than max in a kept output. It is called when the program has exited, so that
// what is left in its pipe fits without an acknowledgement.
func (o *Output) Extend(n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.isKept || o.closed {
		return
	}
	oldest := o.oldest()
	ring := make([]byte, 0, len(o.ring))
	for at := oldest; at < o.end; {
		part := o.ring[o.index(at):min(len(o.ring), o.index(at)+int(o.end-at))]
		ring, at = append(ring, part...), at+int64(len(part))
	}
	o.ring, o.base, o.max = ring, oldest, o.max+n
	o.changed.Broadcast()
}

// release frees the memory of a kept output that is complete and acknowledged, once nobody reads it.
func (o *Output) release() {
	if o.isKept && o.closed && o.acknowledged == o.end && len(o.readers) == 0 {
		o.ring = nil
	}
}
