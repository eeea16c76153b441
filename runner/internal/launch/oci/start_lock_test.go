package oci

import (
	"syscall"
	"testing"
	"time"
)

func TestAnEndWaitsForAStartAndNotForEver(t *testing.T) {
	folder := t.TempDir()
	fd, err := openFolder(folder)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Flock(fd, syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	if err := awaitStart(folder, time.Now()); err != nil {
		t.Errorf("after its time: %v", err)
	}
	over := make(chan error, 1)
	go func() { over <- awaitStart(folder, time.Now().Add(time.Hour)) }()
	select {
	case err := <-over:
		t.Errorf("it did not wait: %v", err)
	case <-time.After(50 * time.Millisecond):
		syscall.Close(fd)
		if err := <-over; err != nil {
			t.Error(err)
		}
	}
}

func TestAFolderThatIsGoneIsNotWaitedFor(t *testing.T) {
	if err := awaitStart(t.TempDir()+"/gone", time.Now().Add(time.Hour)); err != nil {
		t.Error(err)
	}
}
