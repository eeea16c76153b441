package shell

import (
	"sort"
	"sync"
	"syscall"

	"sandglass/runner/internal/account"
	"sandglass/runner/internal/config"
	"sandglass/runner/internal/process"
	"sandglass/runner/internal/spawn"
	"sandglass/runner/internal/wire"
)

// Shells are the shells of a sandbox by name.
type Shells struct {
	cfg        *config.Config
	spawner    *spawn.Spawner
	processes  *process.Table
	locks      keyedMutex // of the shells; held while a command runs
	executions executions

	mu     sync.Mutex
	byName map[string]*Shell
}

func New(cfg *config.Config, spawner *spawn.Spawner, processes *process.Table) *Shells {
	return &Shells{cfg: cfg, spawner: spawner, processes: processes, byName: map[string]*Shell{}}
}

// open returns the named shell and starts it if necessary. The caller holds the lock of the shell, so that no other
// call starts the same one.
func (ss *Shells) open(spec *spec) (sh *Shell, isNew bool, err error) {
	if !isName(spec.Name) {
		return nil, false, invalidShellName()
	}
	if user := userOf(spec.Name); user != "" {
		if spec.User != "" && spec.User != user {
			return nil, false, wire.Invalid("shell %s belongs to %s", spec.Name, user)
		}
		spec.User = user
	}
	if sh := ss.find(spec.Name); sh != nil {
		return sh, false, nil
	}
	if len(ss.list()) >= ss.cfg.MaxShells {
		return nil, false, wire.Invalid("at most %d shells may be open", ss.cfg.MaxShells)
	}
	sh, err = ss.start(spec)
	if err != nil {
		return nil, false, err
	}
	return sh, true, nil
}

func (ss *Shells) list() []*Shell {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	list := make([]*Shell, 0, len(ss.byName))
	for _, sh := range ss.byName {
		list = append(list, sh)
	}
	sort.Slice(list, func(i, j int) bool { return list[i].name < list[j].name })
	return list
}

func (ss *Shells) Count() int { return len(ss.list()) }

// MainDirectory is the working directory of the shell main, or the one that it will start in.
func (ss *Shells) MainDirectory() string {
	if sh := ss.find(defaultShell); sh != nil {
		return sh.directory()
	}
	return ss.cfg.Workdir
}

// Names maps the pids of the shells to their names.
func (ss *Shells) Names() map[int]string {
	names := map[int]string{}
	for _, sh := range ss.list() {
		names[sh.pid] = sh.name
	}
	return names
}

// HangUp sends SIGHUP to the shells: an interactive shell ignores SIGTERM.
func (ss *Shells) HangUp() {
	for _, sh := range ss.list() {
		syscall.Kill(sh.pid, syscall.SIGHUP)
	}
}

// nameFor is the name of the shell for a command. A command that names a user runs in a shell of that user: the named
// one if it belongs to the user, otherwise NAME@USER.
func (ss *Shells) nameFor(name, user string) (string, error) {
	if user == "" {
		return name, nil
	}
	if _, err := ss.cfg.Account(user); err != nil {
		return "", err
	}
	owner := userOf(name)
	if sh := ss.find(name); sh != nil {
		owner = sh.user
	} else if owner == "" {
		owner = account.Default
	}
	switch {
	case owner == user:
		return name, nil
	case userOf(name) != "":
		return "", wire.Invalid("shell %s belongs to %s", name, owner)
	}
	return name + "@" + user, nil
}

func (ss *Shells) find(name string) *Shell {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	return ss.byName[name]
}
