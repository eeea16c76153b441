package guest

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
)

// Descriptors of the process that becomes the runner, beside the standard three.
const (
	configFD  = 3
	reportFD  = 4
	carrierFD = 5 // the port that the runner serves
)

// A session is the process that becomes the runner, as its parent sees it.
type session struct {
	pid    int
	config *os.File
	report *os.File

	mu      sync.Mutex
	isEnded bool // the process has ended or was killed
}

// startSession starts this program again in namespaces of its own, where it waits for its configuration.
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
	var config, report [2]int
	for _, pipe := range []*[2]int{&config, &report} {
		if err := syscall.Pipe2(pipe[:], syscall.O_CLOEXEC); err != nil {
			return nil, fmt.Errorf("make pipe: %w", err)
		}
	}
	defer syscall.Close(config[0])
	defer syscall.Close(report[1])
	argv := append([]string{runnerPath, "--guest", "--carrier", fmt.Sprintf("fd:%d", carrierFD), "--"}, os.Args[1:]...)
	pid, err := syscall.ForkExec(Program, argv, &syscall.ProcAttr{
		Env:   []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
		Files: []uintptr{0, 1, 2, uintptr(config[0]), uintptr(report[1]), uintptr(carrier)},
		Sys: &syscall.SysProcAttr{
			Setsid:     true,
			Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS,
		},
	})
	if err != nil {
		return nil, fmt.Errorf("start the runner: %w", err)
	}
	s := &session{pid: pid, config: os.NewFile(uintptr(config[1]), "configuration"), report: os.NewFile(uintptr(report[0]), "report")}
	// A snapshot should contain the process while it waits, not while it starts.
	line := make([]byte, len(reportWaiting))
	if n, err := io.ReadFull(s.report, line); err != nil || string(line) != reportWaiting {
		rest, _ := io.ReadAll(io.LimitReader(s.report, maxReportBytes))
		return nil, fmt.Errorf("start the runner: %s%s", line[:n], rest)
	}
	return s, nil
}

// begin sends the process the configuration and the content of resolv.conf, and returns when it serves.
func (s *session) begin(config []byte, resolver string) error {
	second, err := json.Marshal(resolver)
	if err != nil {
		return fmt.Errorf("write configuration: %w", err)
	}
	for _, document := range [][]byte{config, second} {
		if _, err := s.config.Write(document); err != nil {
			return fmt.Errorf("write configuration: %w", err)
		}
	}
	s.config.Close()
	report, err := io.ReadAll(io.LimitReader(s.report, maxReportBytes))
	s.report.Close()
	if err != nil {
		return fmt.Errorf("read the runner's report: %w", err)
	}
	if string(report) != reportServing {
		return fmt.Errorf("start the runner: %s", report)
	}
	return nil
}

// wait returns when the runner has ended, and with it every process of its pid namespace.
func (s *session) wait() (*exitReason, error) {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		if err == syscall.EINTR || err == nil && pid != s.pid {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("wait for the runner: %w", err)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		reason := reasonOf(status, s.isEnded, field(workGroup, "memory.events", "oom_kill"))
		s.isEnded = true
		return reason, nil
	}
}

func reasonOf(status syscall.WaitStatus, isRequested bool, oomKills int64) *exitReason {
	switch {
	case isRequested:
		return &exitReason{exitRequested, "the daemon ended the session"}
	case status.Signaled() && oomKills > 0:
		return &exitReason{exitOutOfMemory, "the session ran out of memory: the kernel killed the runner"}
	case status.Signaled():
		return &exitReason{exitSignal, fmt.Sprintf("signal %d ended the runner", status.Signal())}
	}
	return &exitReason{exitStatus, fmt.Sprintf("the runner exited with status %d", status.ExitStatus())}
}

// end kills all processes of the session. wait returns then.
func (s *session) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isEnded {
		return
	}
	s.isEnded = true
	syscall.Kill(s.pid, syscall.SIGKILL)
}
