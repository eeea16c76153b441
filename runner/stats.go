package main

import (
	"syscall"
	"time"
)

func answerStats(run *runner, _ *request) (fields, []byte, error) {
	shells := run.listShells()
	cwd := run.cfg.Workdir
	for _, sh := range shells {
		if sh.name == defaultShell {
			cwd = sh.directory()
		}
	}
	running, detached, sinceEnd := run.processes.activity()
	var disk syscall.Statfs_t
	if err := syscall.Statfs(run.cfg.Workdir, &disk); err != nil {
		return nil, nil, pathError(run.cfg.Workdir, err)
	}
	block := uint64(disk.Bsize)
	reply := fields{
		"shells": len(shells), "processes": running, "detached": detached, "since_detached_ms": sinceEnd, "uptime_ms": time.Since(run.startedAt).Milliseconds(), "cwd": text(cwd),
		"disk_used_bytes": (disk.Blocks - disk.Bfree) * block, "disk_limit_bytes": disk.Blocks * block,
		"disk_free_bytes": disk.Bavail * block,
	}
	if disk.Files > 0 { // some filesystems have no bound on files
		reply["disk_free_files"] = disk.Ffree
	}
	addExact(reply, "cwd", cwd)
	return reply, nil, nil
}
