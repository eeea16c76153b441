// The runner is PID 1 of a sandbox. It owns the shells, processes and files there and serves them to the daemon
// over the protocol of PROTOCOL.md.
package main

import (
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"syscall"

	"sandglass/runner/internal/config"
	"sandglass/runner/internal/confine"
	"sandglass/runner/internal/guest"
	"sandglass/runner/internal/network"
	"sandglass/runner/internal/runas"
	"sandglass/runner/internal/server"
	"sandglass/runner/internal/sys"
)

// entries are the programs that the first argument selects. Without one of them the program is the runner.
var entries = map[string]func(args []string) int{
	confine.ProbeEntry: confine.Probe,
	runas.Entry:        runas.Main,
}

func main() {
	if os.Args[0] == guest.Program {
		guest.Main()
	}
	if len(os.Args) > 1 {
		if entry, ok := entries[os.Args[1]]; ok {
			os.Exit(entry(os.Args[2:]))
		}
	}
	if err := start(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "runner:", err)
		os.Exit(1)
	}
}

// start goes through the phases of the runner's life: options, configuration, confinement, service. Then it reaps
// children until the process ends.
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
	run.WarmShell()
	go run.HandleSignals()
	run.Reap()
	return nil
}

// begin returns a runner that serves clients.
func begin(opts *options) (*server.Server, error) {
	awaitProbe, err := confine.StartProbe(opts.stdio)
	if err != nil {
		return nil, err
	}
	cfg, err := openConfig(opts)
	if err != nil {
		return nil, err
	}
	if err := awaitProbe(); err != nil {
		return nil, err
	}
	run, err := server.New(cfg)
	if err != nil {
		return nil, err
	}
	if err := prepareProcess(cfg); err != nil {
		return nil, err
	}
	if err := serveEgress(run, opts); err != nil {
		return nil, err
	}
	return run, serve(run, opts)
}

// prepareProcess sets the limits and rights that hold for the runner and all that it starts.
func prepareProcess(cfg *config.Config) error {
	debug.SetGCPercent(25) // memory matters more than speed: the runner is idle most of its life
	syscall.Umask(0o022)
	confine.ReserveThreads(cfg.Threads)
	if err := confine.LimitProcesses(cfg.Processes); err != nil {
		return err
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_CORE, &syscall.Rlimit{}); err != nil {
		return fmt.Errorf("forbid core dumps: %w", err)
	}
	if err := sys.CloseOnExec(); err != nil {
		return err
	}
	if os.Getpid() != 1 {
		if err := sys.Prctl(sys.PrSetSubreaper, 1); err != nil {
			return err
		}
	}
	if err := network.AddLoopback(cfg.Loopback); err != nil {
		return err
	}
	if err := confine.DropCapabilities(); err != nil {
		return err
	}
	return confine.FilterSystemCalls(cfg.Seccomp)
}

// serve accepts clients in every way that the options name.
func serve(run *server.Server, opts *options) error {
	if opts.carrier != "" {
		return run.ServeCarrier(opts.carrier)
	}
	stdioOnly := opts.listenFD < 0 && opts.listen == ""
	if opts.stdio {
		if err := run.ServeStdio(stdioOnly); err != nil || stdioOnly {
			return err
		}
	}
	if stdioOnly {
		return errors.New("--listen-fd, --listen, --carrier or --stdio is required")
	}
	listener, err := openListener(opts.listenFD, opts.listen)
	if err != nil {
		return err
	}
	go run.Accept(listener)
	return nil
}

// serveEgress opens the way out of the sandbox and accepts the egress process in every way that the options name. A
// runner whose configuration has no egress closes the descriptor: its parent may not know the configuration.
func serveEgress(run *server.Server, opts *options) error {
	if !run.HasEgress() {
		if opts.egressFD >= 0 {
			return syscall.Close(opts.egressFD)
		}
		return nil
	}
	if err := run.OpenEgress(); err != nil {
		return err
	}
	if opts.egressFD >= 0 || opts.egressListen != "" {
		listener, err := openListener(opts.egressFD, opts.egressListen)
		if err != nil {
			return fmt.Errorf("egress: %w", err)
		}
		go run.AcceptEgress(listener)
	}
	if opts.egressCarrier != "" {
		if err := run.ServeEgressCarrier(opts.egressCarrier); err != nil {
			return fmt.Errorf("egress: %w", err)
		}
	}
	return nil
}
