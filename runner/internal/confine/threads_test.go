package confine

import (
	"os"
	"testing"
)

func TestReservedThreadsStay(t *testing.T) {
	ReserveThreads(24)
	for i := 0; i < 3; i++ {
		tasks, err := os.ReadDir("/proc/self/task")
		if err != nil || len(tasks) < 24 {
			t.Fatalf("%d threads, %v", len(tasks), err)
		}
	}
}
