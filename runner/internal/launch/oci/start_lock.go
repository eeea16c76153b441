package oci

import (
	"errors"
	"fmt"
	"syscall"
	"time"
)

// How long an end waits for a start. A start that takes longer hangs; the end then removes what there is.
const startDeadline = 5 * time.Second

// lockStart locks a session's folder until this process ends. When a daemon dies, its launcher finishes the start. The next daemon may end
// the session meanwhile, and must wait for that start: a machine that came up after the end would belong to nobody.
func lockStart(folder string) error {
	fd, err := openFolder(folder)
	if err != nil {
		return err
	}
	if err := syscall.Flock(fd, syscall.LOCK_EX); err != nil {
		return fmt.Errorf("lock %s: %w", folder, err)
	}
	return nil // the descriptor stays open
}

// awaitStart waits until no start holds the lock. A folder that does not exist has no start.
func awaitStart(folder string, deadline time.Time) error {
	fd, err := openFolder(folder)
	if errors.Is(err, syscall.ENOENT) {
		return nil
	}
	if err != nil {
		return err
	}
	defer syscall.Close(fd)
	for {
		err := syscall.Flock(fd, syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil || time.Now().After(deadline) {
			return nil
		}
		if err != syscall.EWOULDBLOCK && err != syscall.EINTR {
			return fmt.Errorf("wait for a start in %s: %w", folder, err)
		}
		time.Sleep(time.Millisecond)
	}
}

func openFolder(path string) (int, error) {
	fd, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("open %s: %w", path, err)
	}
	return fd, nil
}
