package guest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	writeDeadline = 2 * time.Second
	edgeTrigger   = 1 << 31 // EPOLLET, which package syscall has as a negative number
)

// A port is a virtio port. While no client is connected on the host, it is readable and at end of file at the same time. So only an
// edge-triggered event shows that a client has connected.
type port struct{ fd, epoll int }

func openPort(name string) (*port, error) {
	path, err := findPort(name)
	if err != nil {
		return nil, err
	}
	fd, err := syscall.Open(path, syscall.O_RDWR|syscall.O_CLOEXEC|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("open port %s: %w", name, err)
	}
	epoll, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("watch port %s: %w", name, err)
	}
	event := syscall.EpollEvent{Events: syscall.EPOLLIN | edgeTrigger, Fd: int32(fd)}
	if err := syscall.EpollCtl(epoll, syscall.EPOLL_CTL_ADD, fd, &event); err != nil {
		return nil, fmt.Errorf("watch port %s: %w", name, err)
	}
	return &port{fd, epoll}, nil
}

// Read waits for the next client when the last one has disconnected.
func (p *port) Read(buffer []byte) (int, error) {
	for {
		n, err := syscall.Read(p.fd, buffer)
		switch {
		case n > 0:
			return n, nil
		case err == syscall.EINTR:
			continue
		case err != nil && err != syscall.EAGAIN:
			return 0, err
		}
		if _, err := syscall.EpollWait(p.epoll, make([]syscall.EpollEvent, 1), -1); err != nil && err != syscall.EINTR {
			return 0, err
		}
	}
}

// Write drops data that no client reads. It retries for a while, because a request may arrive before the event that its client has connected.
func (p *port) Write(data []byte) (int, error) {
	for deadline := time.Now().Add(writeDeadline); ; time.Sleep(time.Millisecond) {
		n, err := syscall.Write(p.fd, data)
		if err != syscall.EINTR && (err != syscall.EAGAIN || time.Now().After(deadline)) {
			return n, err
		}
	}
}

// findPort returns the path of a port by the name that the host has set.
func findPort(name string) (string, error) {
	return findDevice(portNames, name, deviceDeadline)
}

// portNames are the files that have the names of the ports.
const portNames = "/sys/class/virtio-ports/*/name"

// How long to wait for a device. Drivers create devices some time after their modules are loaded.
const (
	deviceDeadline = 10 * time.Second
	// egressDeadline is for a port that a machine need not have. The configuration has come through another port of the same device, so
	// this port is there already, or has no name yet.
	egressDeadline = time.Second
)

// findDevice returns the path of the device for which a file in /sys, named by the pattern, has this value.
func findDevice(pattern, value string, timeout time.Duration) (string, error) {
	for deadline := time.Now().Add(timeout); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		files, err := filepath.Glob(pattern)
		if err != nil {
			return "", err
		}
		for _, file := range files {
			content, err := os.ReadFile(file)
			if err == nil && strings.TrimSpace(string(content)) == value {
				return filepath.Join("/dev", filepath.Base(filepath.Dir(file))), nil
			}
		}
	}
	return "", fmt.Errorf("no device has the value %s in %s", value, pattern)
}
