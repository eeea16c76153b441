package server

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"sandglass/runner/internal/config"
	"sandglass/runner/internal/process"
	"sandglass/runner/internal/shell"
	"sandglass/runner/internal/spawn"
)

const version = "0.1.0"

// A Server is everything that one sandbox has.
type Server struct {
	cfg       *config.Config
	bootID    string
	startedAt time.Time
	spawner   *spawn.Spawner
	shells    *shell.Shells
	processes *process.Table
	table     table
	exit      func() // ends the runner's own process

	isStopping atomic.Bool
}

func New(cfg *config.Config) (*Server, error) {
	var id [16]byte
	if _, err := rand.Read(id[:]); err != nil {
		return nil, fmt.Errorf("make boot id: %w", err)
	}
	run := &Server{cfg: cfg, bootID: hex.EncodeToString(id[:]), startedAt: time.Now(), spawner: spawn.New(cfg), exit: func() { os.Exit(0) }}
	run.processes = process.New(cfg, run.spawner, func() map[int]string { return run.shells.Names() })
	run.shells = shell.New(cfg, run.spawner, run.processes)
	run.table = run.newTable()
	return run, nil
}

// WarmShell starts the shell main before the first command asks for it, where the configuration says so.
func (run *Server) WarmShell() {
	if run.cfg.WarmShell {
		run.shells.StartMain()
	}
}

// Reap collects the exit statuses of children until the process ends.
func (run *Server) Reap() { run.spawner.Reaper.Loop() }
