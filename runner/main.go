// The runner is PID 1 of a sandbox: it owns shells, processes and files there
// and serves them over the protocol of PROTOCOL.md.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime/debug"
	"syscall"
	"time"

	"sandglass/runner/guest"
	"sandglass/runner/launch"
	"sandglass/runner/unpack"
)

func main() {
	if os.Args[0] == guest.Program {
		guest.Main()
	}
	if len(os.Args) > 1 && os.Args[1] == "launch" {
		os.Exit(launch.Main())
	}
	if len(os.Args) > 1 && os.Args[1] == "unpack" {
		os.Exit(unpack.Main(os.Args[2:]))
	}
	if len(os.Args) == 2 && os.Args[1] == "devices" {
		os.Exit(unpack.Devices())
	}
	if len(os.Args) > 1 && os.Args[1] == "restack" {
		os.Exit(unpack.Restack(os.Args[2:]))
	}
	if len(os.Args) == 3 && os.Args[1] == "look" {
		os.Exit(look(os.Args[2]))
	}
	if err := start(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "runner:", err)
		os.Exit(1)
	}
}

// start goes through the phases of the runner's life.
func start(args []string) error {
	opts, err := parseFlags(args)
	if err != nil {
		return err
	}
	if opts.client != "" {
		code, err := runClient(opts, os.Stdout)
		if err == nil {
			os.Exit(code)
		}
		return err
	}
	run, err := begin(opts)
	if opts.guest {
		guest.Report(err)
	}
	if err != nil {
		return err
	}
	if opts.configLine {
		fmt.Fprintln(os.Stderr, "runner: listening")
	}
	if run.cfg.WarmShell {
		run.warmShell()
	}
	go run.handleSignals()
	run.reaper.loop()
	return nil
}

// begin makes a runner that serves.
func begin(opts *options) (*runner, error) {
	looked, err := lookFor(opts)
	if err != nil {
		return nil, err
	}
	cfg, err := openConfig(opts)
	if err != nil {
		return nil, err
	}
	if err := looked(); err != nil {
		return nil, err
	}
	run, err := newRunner(cfg)
	if err != nil {
		return nil, err
	}
	if err := prepareProcess(cfg); err != nil {
		return nil, err
	}
	registerHandlers()
	return run, run.serve(opts)
}

// serve lets clients in, by every way that the options name.
func (run *runner) serve(opts *options) error {
	if opts.carrier != "" {
		return run.serveCarrier(opts.carrier)
	}
	isAlone := opts.listenFD < 0 && opts.listen == ""
	if opts.stdio {
		if err := run.serveStdio(isAlone); err != nil || isAlone {
			return err
		}
	}
	listener, err := openListener(opts)
	if err != nil {
		return err
	}
	go run.accept(listener)
	return nil
}

// prepareProcess sets what the runner and its children run under.
func prepareProcess(cfg *config) error {
	debug.SetGCPercent(25) // memory matters more than speed: the runner is idle most of its life
	syscall.Umask(0o022)
	reserveThreads(cfg.Threads)
	if err := limitProcesses(cfg.Processes); err != nil {
		return err
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_CORE, &syscall.Rlimit{}); err != nil {
		return fmt.Errorf("forbid core dumps: %w", err)
	}
	if err := launch.CloseOnExec(); err != nil {
		return err
	}
	if os.Getpid() != 1 {
		if err := prctl(prSetSubreaper, 1); err != nil {
			return err
		}
	}
	if err := addLoopback(cfg.Loopback); err != nil {
		return err
	}
	if err := dropCapabilities(); err != nil {
		return err
	}
	return filterCalls(cfg.Seccomp)
}

// limitProcesses is for starters that cannot limit the runner themselves without limiting what else their user runs.
func limitProcesses(most uint64) error {
	if most == 0 {
		return nil
	}
	if err := syscall.Setrlimit(launch.RlimitNproc, &syscall.Rlimit{Cur: most, Max: most}); err != nil {
		return fmt.Errorf("limit processes: %w", err)
	}
	return nil
}

func openConfig(opts *options) (*config, error) {
	var file *os.File
	switch {
	case opts.guest:
		// These take a while and are the same for every session, so they come before the wait for the session.
		if err := limitCapabilities(); err != nil {
			return nil, err
		}
		if err := addLoopback(guest.Loopback); err != nil {
			return nil, err
		}
		content, err := guest.Enter(opts.guestArgs)
		if err != nil {
			return nil, err
		}
		return readConfig(bytes.NewReader(content))
	case opts.configLine:
		return readConfig(&firstLine{from: os.Stdin})
	case opts.configFD >= 0:
		file = os.NewFile(uintptr(opts.configFD), "configuration")
	case opts.configFile != "":
		opened, err := os.Open(opts.configFile)
		if err != nil {
			return nil, fmt.Errorf("open configuration: %w", err)
		}
		file = opened
	default:
		return nil, errors.New("--config-fd or --config-file is required")
	}
	defer file.Close()
	return readConfig(file)
}

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

// removeStale removes a socket that a runner before this one has left.
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

// accept serves connections for as long as the runner lives.
func (run *runner) accept(listener net.Listener) {
	for {
		conn, err := listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			time.Sleep(20 * time.Millisecond) // out of descriptors: others must close first
			continue
		}
		if socket, ok := conn.(carrier); ok {
			go run.serveConn(socket)
			continue
		}
		conn.Close()
	}
}

// A firstLine reads up to the first newline, and not a byte more: what follows is a client's.
type firstLine struct {
	from io.Reader
	over bool
}

func (l *firstLine) Read(p []byte) (int, error) {
	if l.over || len(p) == 0 {
		return 0, io.EOF
	}
	n, err := l.from.Read(p[:1])
	l.over = n == 1 && p[0] == '\n'
	return n, err
}
