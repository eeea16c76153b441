package stdio

// A Capture keeps the first and the last half of what is written to it. The halves grow as needed.
type Capture struct {
	headMax, tailMax int
	head, tail       []byte
	next             int // index of the oldest byte of a full tail
	total            int64
}

func NewCapture(max int) *Capture {
	return &Capture{headMax: max - max/2, tailMax: max / 2}
}

func (c *Capture) Write(p []byte) {
	c.total += int64(len(p))
	if free := c.headMax - len(c.head); free > 0 {
		n := min(free, len(p))
		c.head = append(c.head, p[:n]...)
		p = p[n:]
	}
	if c.tailMax == 0 {
		return
	}
	if len(p) > c.tailMax {
		p = p[len(p)-c.tailMax:]
	}
	if free := c.tailMax - len(c.tail); free > 0 {
		n := min(free, len(p))
		c.tail = append(c.tail, p[:n]...)
		p = p[n:]
	}
	for len(p) > 0 {
		n := copy(c.tail[c.next:], p)
		c.next = (c.next + n) % c.tailMax
		p = p[n:]
	}
}

// Bytes returns what was kept, in order, and whether the middle is missing.
func (c *Capture) Bytes() (kept []byte, truncated bool) {
	kept = append(c.head, c.tail[c.next:]...)
	return append(kept, c.tail[:c.next]...), c.total > int64(c.headMax+c.tailMax)
}

func min(a, b int) int {
	if a < b {
		return a
	}
	return b
}
