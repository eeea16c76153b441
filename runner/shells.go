package main

import (
	"sort"
	"sync"
)

// shells are the shells of a sandbox by name.
type shells struct {
	lines turns

	mu     sync.Mutex
	byName map[string]*shell
}

// openShell gives the named shell, starting it if it is not there.
// The caller has the shell's turn, so no other call starts the same one.
func (run *runner) openShell(spec *shellSpec) (sh *shell, isNew bool, err error) {
	if !isShellName(spec.Name) {
		return nil, false, invalidShellName()
	}
	if user := userOf(spec.Name); user != "" {
		if spec.User != "" && spec.User != user {
			return nil, false, invalid("shell %s belongs to %s", spec.Name, user)
		}
		spec.User = user
	}
	if sh := run.findShell(spec.Name); sh != nil {
		return sh, false, nil
	}
	if len(run.listShells()) >= run.cfg.MaxShells {
		return nil, false, invalid("at most %d shells may be open", run.cfg.MaxShells)
	}
	sh, err = run.startShell(spec)
	if err != nil {
		return nil, false, err
	}
	return sh, true, nil
}

func (run *runner) listShells() []*shell {
	run.shells.mu.Lock()
	defer run.shells.mu.Unlock()
	list := make([]*shell, 0, len(run.shells.byName))
	for _, sh := range run.shells.byName {
		list = append(list, sh)
	}
	sort.Slice(list, func(i, j int) bool { return list[i].name < list[j].name })
	return list
}

// shellOf names the shell of a command. A user that the command asks for has a shell of its own: the named one if it is
// that user's, else NAME@USER.
func (run *runner) shellOf(name, user string) (string, error) {
	if user == "" {
		return name, nil
	}
	if _, err := run.cfg.account(user); err != nil {
		return "", err
	}
	owner := userOf(name)
	if sh := run.findShell(name); sh != nil {
		owner = sh.user
	} else if owner == "" {
		owner = defaultUser
	}
	switch {
	case owner == user:
		return name, nil
	case userOf(name) != "":
		return "", invalid("shell %s belongs to %s", name, owner)
	}
	return name + "@" + user, nil
}

func (run *runner) findShell(name string) *shell {
	run.shells.mu.Lock()
	defer run.shells.mu.Unlock()
	return run.shells.byName[name]
}
