package guest

import (
	"fmt"
	"syscall"
	"time"
)

const (
	writeDeadline = 2 * time.Second
	edgeTrigger   = 1 << 31 // EPOLLET, which package syscall has as a negative number
)

// A port is a virtio port. While nobody is connected on the other side it is at its end and readable at the same time, so only an edge
// tells that somebody came.
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

// Read waits for whoever connects next when the one before has gone.
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

// Write drops what nobody is there to read. That somebody came is told apart from what was sent: a request may be here before it.
func (p *port) Write(data []byte) (int, error) {
	for deadline := time.Now().Add(writeDeadline); ; time.Sleep(time.Millisecond) {
		n, err := syscall.Write(p.fd, data)
		if err != syscall.EINTR && (err != syscall.EAGAIN || time.Now().After(deadline)) {
			return n, err
		}
	}
}

// findPort gives the path of a port by the name that the host gave it.
func findPort(name string) (string, error) {
	return findDevice("/sys/class/virtio-ports/*/name", name)
}
