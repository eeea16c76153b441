// Package spawn starts the programs of a sandbox and reaps them.
package spawn

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"sandglass/runner/internal/account"
	"sandglass/runner/internal/config"
	"sandglass/runner/internal/sys"
	"sandglass/runner/internal/wire"
)

// TimeoutStatus is the exit status of a program that was ended by its timeout.
const TimeoutStatus = 124

const DefaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// A Program describes a child of the runner.
type Program struct {
	Argv []string
	Cwd  string
	Env  map[string]string // in addition to the sandbox's own
	User string
	// Files become descriptors 0, 1, 2, …; nil leaves one closed.
	Files []*os.File
	TTY   bool // descriptor 0 becomes the controlling terminal
}

// A Spawner starts the programs of a sandbox, with their user, directory and environment.
type Spawner struct {
	cfg    *config.Config
	Reaper *reaper
}

func New(cfg *config.Config) *Spawner { return &Spawner{cfg: cfg, Reaper: newReaper()} }

// Start starts a program in a session of its own. It returns the pid and the channel that receives the exit status.
func (s *Spawner) Start(p *Program) (int, <-chan int, error) {
	who, err := s.cfg.Account(p.User)
	if err != nil {
		return 0, nil, err
	}
	cwd, err := s.Directory(p.Cwd)
	if err != nil {
		return 0, nil, err
	}
	env := s.environment(who, p.User == "root", cwd, p.Env)
	path, err := LookPath(p.Argv[0], cwd, env["PATH"])
	if err != nil {
		return 0, nil, err
	}
	c := &child{path: path, argv: p.Argv, env: flatten(env), dir: cwd, who: who, tty: p.TTY}
	// An unprivileged runner has this user already and may not set groups.
	if who != nil && int(who.UID) == os.Geteuid() && int(who.GID) == os.Getegid() {
		c.who = nil
	}
	for _, file := range p.Files {
		if file == nil {
			c.files = append(c.files, -1)
			continue
		}
		c.files = append(c.files, int(sys.RawFD(file)))
	}
	pid, exit, err := s.Reaper.start(c)
	if err != nil {
		return 0, nil, wire.PathError(p.Argv[0], err)
	}
	return pid, exit, nil
}

// Directory returns the working directory that a request asks for, as an absolute path.
func (s *Spawner) Directory(cwd string) (string, error) {
	path := s.cfg.Workdir
	if cwd != "" {
		path = cwd
		if !filepath.IsAbs(path) {
			path = filepath.Join(s.cfg.Workdir, path)
		}
	}
	info, err := os.Stat(path)
	if err != nil {
		return "", wire.PathError(path, err)
	}
	if !info.IsDir() {
		return "", wire.PathError(path, syscall.ENOTDIR)
	}
	return path, nil
}

// environment merges the default environment, the configured one and the request's, in this order.
func (s *Spawner) environment(who *account.User, root bool, cwd string, extra map[string]string) map[string]string {
	name, home := "sandbox", s.cfg.Home
	switch {
	case who != nil:
		name = who.Name
	case root:
		name, home = "root", "/root"
	}
	env := map[string]string{
		"PATH": DefaultPath, "HOME": home, "USER": name, "LOGNAME": name, "SHELL": loginShell(),
		"TERM": "xterm-256color", "LANG": "C.UTF-8", "PWD": cwd,
	}
	for _, more := range []map[string]string{s.cfg.Env, extra} {
		for k, v := range more {
			env[k] = v
		}
	}
	return env
}

func loginShell() string {
	if isExecutable("/bin/bash") {
		return "/bin/bash"
	}
	return "/bin/sh"
}

func flatten(env map[string]string) []string {
	list := make([]string, 0, len(env))
	for k, v := range env {
		list = append(list, k+"="+v)
	}
	return list
}

// LookPath finds a program in path, as a shell in cwd would.
func LookPath(name, cwd, path string) (string, error) {
	if name == "" {
		return "", wire.Invalid("argv[0] must not be empty")
	}
	if strings.Contains(name, "/") {
		if !filepath.IsAbs(name) {
			name = filepath.Join(cwd, name)
		}
		return name, nil
	}
	for _, dir := range filepath.SplitList(path) {
		candidate := filepath.Join(dir, name)
		if !filepath.IsAbs(candidate) {
			candidate = filepath.Join(cwd, candidate)
		}
		if isExecutable(candidate) {
			return candidate, nil
		}
	}
	return "", wire.PathError(name, syscall.ENOENT)
}

func isExecutable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}
