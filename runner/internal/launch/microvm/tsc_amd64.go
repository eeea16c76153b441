package microvm

// timestamp reads the processor's time stamp counter.
func timestamp() uint64
