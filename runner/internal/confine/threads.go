package confine

import (
	"runtime"
	"sync"
)

// ReserveThreads creates threads that the Go runtime keeps for later use.
//
// SECURITY: the runtime ends the program when it cannot create a thread. Where the processes of the sandbox and the
// runner share one limit, a fork bomb would otherwise end the runner.
func ReserveThreads(n int) {
	var started sync.WaitGroup
	release := make(chan struct{})
	started.Add(n)
	for i := 0; i < n; i++ {
		go func() {
			runtime.LockOSThread()
			started.Done()
			<-release
			runtime.UnlockOSThread() // otherwise the thread ends with its goroutine
		}()
	}
	started.Wait()
	close(release)
}
