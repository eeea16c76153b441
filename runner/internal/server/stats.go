package server

import (
	"syscall"
	"time"

	"sandglass/runner/internal/wire"
)

func (run *Server) answerStats(_ *wire.Request) (wire.Fields, []byte, error) {
	shells, cwd := run.shells.Count(), run.shells.MainDirectory()
	running, detached, sinceEnd := run.processes.Activity()
	var disk syscall.Statfs_t
	if err := syscall.Statfs(run.cfg.Workdir, &disk); err != nil {
		return nil, nil, wire.PathError(run.cfg.Workdir, err)
	}
	block := uint64(disk.Bsize)
	reply := wire.Fields{
		"shells": shells, "processes": running, "detached": detached, "since_detached_ms": sinceEnd, "uptime_ms": time.Since(run.startedAt).Milliseconds(), "cwd": wire.Text(cwd),
		"disk_used_bytes": (disk.Blocks - disk.Bfree) * block, "disk_limit_bytes": disk.Blocks * block,
		"disk_free_bytes": disk.Bavail * block,
	}
	if disk.Files > 0 { // some filesystems have no bound on files
		reply["disk_free_files"] = disk.Ffree
	}
	wire.AddExact(reply, "cwd", cwd)
	return reply, nil, nil
}
