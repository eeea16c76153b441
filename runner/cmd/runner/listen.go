package main

import (
	"errors"
	"fmt"
	"net"
	"os"
)

func openListener(opts *options) (net.Listener, error) {
	if opts.listenFD >= 0 {
		file := os.NewFile(uintptr(opts.listenFD), "listener")
		defer file.Close()
		listener, err := net.FileListener(file)
		if err != nil {
			return nil, fmt.Errorf("listen on descriptor %d: %w", opts.listenFD, err)
		}
		return listener, nil
	}
	if opts.listen == "" {
		return nil, errors.New("--listen-fd, --listen, --carrier or --stdio is required")
	}
	removeStale(opts.listen)
	listener, err := net.Listen("unix", opts.listen)
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
