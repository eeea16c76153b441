// Package server accepts the daemon's connections and answers their requests with the packages of the nouns: shell,
// process, files, archive, network.
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

// A Server is the runner of one sandbox.
type Server struct {
	cfg       *config.Config
	bootID    string
	startedAt time.Time
	spawner   *spawn.Spawner
	shells    *shell.Shells
	processes *process.Table
	table     table
	exit      func() // ends the process of the runner

	isStopping atomic.Bool
}

func New(cfg *config.Config) (*Server, error) {
	var id [16]byte
	if _, err := rand.Read(id[:]); err != nil {
		return nil, fmt.Errorf("make boot id: %w", err)
	}
	srv := &Server{cfg: cfg, bootID: hex.EncodeToString(id[:]), startedAt: time.Now(), spawner: spawn.New(cfg), exit: func() { os.Exit(0) }}
	srv.processes = process.New(cfg, srv.spawner, func() map[int]string { return srv.shells.Names() })
	srv.shells = shell.New(cfg, srv.spawner, srv.processes)
	srv.table = srv.newTable()
	return srv, nil
}

// WarmShell starts the shell main if the configuration asks for it.
func (srv *Server) WarmShell() {
	if srv.cfg.WarmShell {
		srv.shells.StartMain()
	}
}

// Reap reaps children until the process ends.
func (srv *Server) Reap() { srv.spawner.Reaper.Loop() }
