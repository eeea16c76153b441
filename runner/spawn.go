package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// A program is what start needs to know about a child of the runner.
type program struct {
	argv []string
	cwd  string
	env  map[string]string // on top of the sandbox's own
	user string
	// files become descriptors 0, 1, 2, …; nil leaves one closed.
	files []*os.File
	tty   bool // descriptor 0 becomes the controlling terminal
}

// spawn starts a program in a session of its own.
func (run *runner) spawn(p *program) (int, <-chan int, error) {
	who, err := run.cfg.account(p.user)
	if err != nil {
		return 0, nil, err
	}
	cwd, err := run.directory(p.cwd)
	if err != nil {
		return 0, nil, err
	}
	env := run.environment(who, p.user == "root", cwd, p.env)
	path, err := lookPath(p.argv[0], cwd, env["PATH"])
	if err != nil {
		return 0, nil, err
	}
	c := &child{path: path, argv: p.argv, env: flatten(env), dir: cwd, who: who, tty: p.tty}
	// A runner without rights is that user already, and may not even set its groups to none.
	if who != nil && int(who.UID) == os.Geteuid() && int(who.GID) == os.Getegid() {
		c.who = nil
	}
	for _, file := range p.files {
		if file == nil {
			c.files = append(c.files, -1)
			continue
		}
		c.files = append(c.files, int(rawFD(file)))
	}
	pid, exit, err := run.reaper.start(c)
	if err != nil {
		return 0, nil, pathError(p.argv[0], err)
	}
	return pid, exit, nil
}

// rawFD gives the descriptor of a file without switching it to blocking mode, as Fd would.
func rawFD(file *os.File) uintptr {
	fd := ^uintptr(0)
	if raw, err := file.SyscallConn(); err == nil {
		raw.Control(func(n uintptr) { fd = n })
	}
	return fd
}

// directory gives the working directory that a request asks for.
func (run *runner) directory(cwd string) (string, error) {
	path := run.cfg.Workdir
	if cwd != "" {
		path = cwd
		if !filepath.IsAbs(path) {
			path = filepath.Join(run.cfg.Workdir, path)
		}
	}
	info, err := os.Stat(path)
	if err != nil {
		return "", pathError(path, err)
	}
	if !info.IsDir() {
		return "", pathError(path, syscall.ENOTDIR)
	}
	return path, nil
}

// environment is what a program sees: ours, the configured one, then the request's.
func (run *runner) environment(who *account, root bool, cwd string, extra map[string]string) map[string]string {
	name, home := "sandbox", run.cfg.Home
	switch {
	case who != nil:
		name = who.Name
	case root:
		name, home = "root", "/root"
	}
	env := map[string]string{
		"PATH": defaultPath, "HOME": home, "USER": name, "LOGNAME": name, "SHELL": loginShell(),
		"TERM": "xterm-256color", "LANG": "C.UTF-8", "PWD": cwd,
	}
	for _, more := range []map[string]string{run.cfg.Env, extra} {
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

// lookPath finds a program as the child's own shell would.
func lookPath(name, cwd, path string) (string, error) {
	if name == "" {
		return "", invalid("argv[0] must not be empty")
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
	return "", pathError(name, syscall.ENOENT)
}

func isExecutable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

// pipe makes a pipe whose ends block, as programs expect; os.Pipe's do not.
// The end that the runner keeps may be made not to with unblock.
func pipe() (r, w *os.File, err error) {
	var fds [2]int
	if err := syscall.Pipe2(fds[:], syscall.O_CLOEXEC); err != nil {
		return nil, nil, fmt.Errorf("make pipe: %w", err)
	}
	return os.NewFile(uintptr(fds[0]), "pipe"), os.NewFile(uintptr(fds[1]), "pipe"), nil
}

// unblock gives a file that waits through the runtime instead of occupying a
// thread, in place of one from pipe.
func unblock(file *os.File) *os.File {
	fd, err := syscall.Dup(int(rawFD(file)))
	if err != nil {
		return file
	}
	syscall.CloseOnExec(fd)
	file.Close()
	syscall.SetNonblock(fd, true)
	return os.NewFile(uintptr(fd), "pipe")
}

// writeNow writes what fits at this moment and drops the rest. The file must not block.
func writeNow(file *os.File, text string) {
	raw, err := file.SyscallConn()
	if err != nil {
		return // closed
	}
	raw.Control(func(fd uintptr) {
		for {
			if _, err := syscall.Write(int(fd), []byte(text)); err != syscall.EINTR {
				return
			}
		}
	})
}
