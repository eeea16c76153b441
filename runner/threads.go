package main

import (
	"runtime"
	"sync"
)

// reserveThreads makes threads that the Go runtime keeps for later.
//
// SECURITY: the runtime ends the program when it cannot make one. Where the sandbox's processes and the runner share one limit, a
// fork bomb would otherwise take the runner along.
func reserveThreads(n int) {
	var there sync.WaitGroup
	enough := make(chan struct{})
	there.Add(n)
	for i := 0; i < n; i++ {
		go func() {
			runtime.LockOSThread()
			there.Done()
			<-enough
			runtime.UnlockOSThread() // or the thread would end with its goroutine
		}()
	}
	there.Wait()
	close(enough)
}
