package egress

import "sync"

const (
	smallBuffer = 16 << 10
	largeBuffer = 128 << 10
	maxLarge    = 16 // at once
)

// Buffers for copying. A connection has one only while bytes are under way. A large transfer is about as fast with
// large buffers as with splice, which would need a pipe for each connection. There are few large ones, because a
// connection keeps its buffer for as long as the receiver does not read.
var (
	smallBuffers = sync.Pool{New: func() any { return new([smallBuffer]byte) }}
	largeBuffers = sync.Pool{New: func() any { return new([largeBuffer]byte) }}
	largeSlots   = make(chan struct{}, maxLarge)
)

// takeBuffer returns a buffer, a large one for a busy connection if one is free.
func takeBuffer(isBusy bool) []byte {
	if isBusy {
		select {
		case largeSlots <- struct{}{}:
			return largeBuffers.Get().(*[largeBuffer]byte)[:]
		default:
		}
	}
	return smallBuffers.Get().(*[smallBuffer]byte)[:]
}

func giveBuffer(buffer []byte) {
	if cap(buffer) == largeBuffer {
		largeBuffers.Put((*[largeBuffer]byte)(buffer))
		<-largeSlots
		return
	}
	smallBuffers.Put((*[smallBuffer]byte)(buffer))
}
