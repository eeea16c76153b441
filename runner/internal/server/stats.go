package server

import (
	"syscall"
	"time"

	"sandglass/runner/internal/wire"
)

func (srv *Server) answerStats(_ *wire.Request) (wire.Fields, []byte, error) {
	shells, cwd := srv.shells.Count(), srv.shells.MainDirectory()
	running, detached, sinceEnd := srv.processes.Activity()
	var disk syscall.Statfs_t
	if err := syscall.Statfs(srv.cfg.Workdir, &disk); err != nil {
		return nil, nil, wire.PathError(srv.cfg.Workdir, err)
	}
	block := uint64(disk.Bsize)
	reply := wire.Fields{
		"shells": shells, "processes": running, "detached": detached, "since_detached_ms": sinceEnd, "uptime_ms": time.Since(srv.startedAt).Milliseconds(), "cwd": wire.Text(cwd),
		"disk_used_bytes": (disk.Blocks - disk.Bfree) * block, "disk_limit_bytes": disk.Blocks * block,
		"disk_free_bytes": disk.Bavail * block,
	}
	if disk.Files > 0 { // some filesystems do not limit the number of files
		reply["disk_free_files"] = disk.Ffree
	}
	wire.AddExact(reply, "cwd", cwd)
	return reply, nil, nil
}
