package guest

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
)

// Descriptors of the process that becomes the runner, beside the first three.
const (
	ordersFD  = 3
	reportFD  = 4
	carrierFD = 5 // the port that the runner serves
)

// A session is the process that becomes the runner, seen from outside.
type session struct {
	pid    int
	orders *os.File
	report *os.File

	mu      sync.Mutex // guards what follows
	isEnded bool
}

// startSession starts this program again in namespaces of its own. It waits there for its orders.
func startSession() (*session, error) {
	path, err := findPort(carrierPort)
	if err != nil {
		return nil, err
	}
	carrier, err := syscall.Open(path, syscall.O_RDWR|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open port %s: %w", carrierPort, err)
	}
	defer syscall.Close(carrier)
	var orders, report [2]int
	for _, pipe := range []*[2]int{&orders, &report} {
		if err := syscall.Pipe2(pipe[:], syscall.O_CLOEXEC); err != nil {
			return nil, fmt.Errorf("make pipe: %w", err)
		}
	}
	defer syscall.Close(orders[0])
	defer syscall.Close(report[1])
	argv := append([]string{runnerPath, "--guest", "--carrier", fmt.Sprintf("fd:%d", carrierFD), "--"}, os.Args[1:]...)
	pid, err := syscall.ForkExec(Program, argv, &syscall.ProcAttr{
		Env:   []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
		Files: []uintptr{0, 1, 2, uintptr(orders[0]), uintptr(report[1]), uintptr(carrier)},
		Sys: &syscall.SysProcAttr{
			Setsid:     true,
			Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS,
		},
	})
	if err != nil {
		return nil, fmt.Errorf("start the runner: %w", err)
	}
	s := &session{pid: pid, orders: os.NewFile(uintptr(orders[1]), "orders"), report: os.NewFile(uintptr(report[0]), "report")}
	// A snapshot is to have the process in it as it waits, not as it starts.
	said := make([]byte, len(waiting))
	if n, err := io.ReadFull(s.report, said); err != nil || string(said) != waiting {
		rest, _ := io.ReadAll(io.LimitReader(s.report, maxReportBytes))
		return nil, fmt.Errorf("start the runner: %s%s", said[:n], rest)
	}
	return s, nil
}

// begin gives the process its orders, the configuration and whom to ask for names, and returns when it serves.
func (s *session) begin(config []byte, names string) error {
	resolver, err := json.Marshal(names)
	if err != nil {
		return fmt.Errorf("write orders: %w", err)
	}
	for _, order := range [][]byte{config, resolver} {
		if _, err := s.orders.Write(order); err != nil {
			return fmt.Errorf("write orders: %w", err)
		}
	}
	s.orders.Close()
	report, err := io.ReadAll(io.LimitReader(s.report, maxReportBytes))
	s.report.Close()
	if err != nil {
		return fmt.Errorf("read the runner's report: %w", err)
	}
	if string(report) != served {
		return fmt.Errorf("start the runner: %s", report)
	}
	return nil
}

// wait returns when the runner has ended, and with it everything it started.
func (s *session) wait() error {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		if err == syscall.EINTR || err == nil && pid != s.pid {
			continue
		}
		if err != nil {
			return fmt.Errorf("wait for the runner: %w", err)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		switch {
		case s.isEnded:
			say("the session was ended")
		case status.Signaled() && field("memory.events", "oom_kill") > 0:
			say("the session ran out of memory: the kernel killed the runner")
		case status.Signaled():
			say("the runner was killed by signal %d", status.Signal())
		default:
			say("the runner ended with status %d", status.ExitStatus())
		}
		s.isEnded = true
		return nil
	}
}

// end kills everything of the session; wait sees it.
func (s *session) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isEnded {
		return
	}
	s.isEnded = true
	syscall.Kill(s.pid, syscall.SIGKILL)
}
