package microvm

import "time"

const tscMeasure = 200 * time.Millisecond

// TSCKhz measures the frequency of the processor's time stamp counter. An emulated machine has the same counter, and its kernel cannot
// measure it on a busy host.
func TSCKhz() uint64 {
	from, fromCount := reading()
	time.Sleep(tscMeasure)
	to, toCount := reading()
	return uint64(float64(toCount-fromCount) / float64(to.Sub(from).Nanoseconds()) * 1e6)
}

// reading returns a time and the counter at that time. Of several pairs it takes the one that was read fastest.
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
