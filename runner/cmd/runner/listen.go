package main

import (
	"fmt"
	"net"
	"os"
)

// openListener listens on an inherited descriptor, or at a path if the descriptor is negative.
func openListener(fd int, path string) (net.Listener, error) {
	if fd >= 0 {
		file := os.NewFile(uintptr(fd), "listener")
		defer file.Close()
		listener, err := net.FileListener(file)
		if err != nil {
			return nil, fmt.Errorf("listen on descriptor %d: %w", fd, err)
		}
		return listener, nil
	}
	removeStale(path)
	listener, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	return listener, nil
}

// removeStale removes the socket of an earlier runner that nothing listens on any more.
func removeStale(path string) {
	info, err := os.Lstat(path)
	if err != nil || info.Mode()&os.ModeSocket == 0 {
		return
	}
	if conn, err := net.Dial("unix", path); err == nil {
		conn.Close()
		return
	}
	os.Remove(path)
}
