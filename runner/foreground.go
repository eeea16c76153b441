package main

// foreground is the process group that the terminal's keys act on. Where the kernel does not tell, it is the youngest of those that the shell has
// started since it was last told anything, or the shell's own.
func (sh *shell) foreground() int {
	group, isTold := sh.term.foregroundGroup()
	if isTold {
		return group
	}
	return youngestGroup(sessionProcesses(sh.pid), sh.pid, sh.since.Load())
}

func youngestGroup(processes []procStat, shell int, since int64) int {
	youngest := procStat{group: shell}
	for _, p := range processes {
		if p.parent == shell && p.group != shell && p.started >= since && p.started >= youngest.started {
			youngest = p
		}
	}
	return youngest.group
}
