package launch

import (
	"errors"
	"fmt"
	"syscall"
	"time"
)

// How long an end waits for a start. One that takes longer hangs, and what there is of it is ended as it is.
const startPatience = 5 * time.Second

// lockStart says, until this process is over, that a start is under way in a session's folder. A daemon that dies leaves its launcher to
// finish, and the next one may end the session meanwhile: what came up after that would be nobody's.
func lockStart(folder string) error {
	fd, err := openFolder(folder)
	if err != nil {
		return err
	}
	if err := syscall.Flock(fd, syscall.LOCK_EX); err != nil {
		return fmt.Errorf("lock %s: %w", folder, err)
	}
	return nil // it stays open
}

// awaitStart waits until no start is under way in the folder, if it is there.
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
