package launch

import "time"

const tscMeasure = 200 * time.Millisecond

// tscKhz measures how fast the processor's time stamp counter runs. A machine that is emulated has the same counter, and on a busy host its
// kernel cannot find that out by itself.
func tscKhz() uint64 {
	from, fromCount := reading()
	time.Sleep(tscMeasure)
	to, toCount := reading()
	return uint64(float64(toCount-fromCount) / float64(to.Sub(from).Nanoseconds()) * 1e6)
}

// reading pairs a time with a count: of several pairs the one that was interrupted least.
func reading() (time.Time, uint64) {
	var at time.Time
	var count uint64
	least := time.Hour
	for i := 0; i < 16; i++ {
		before := time.Now()
		c := timestamp()
		if took := time.Since(before); took < least {
			least, at, count = took, before.Add(took/2), c
		}
	}
	return at, count
}
