// Package server accepts the daemon's connections and answers their requests with the packages of the nouns: shell,
// process, files, archive, network.
package server

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net"
	"os"
	"sync/atomic"
	"time"

	"sandglass/runner/internal/config"
	"sandglass/runner/internal/egress"
	"sandglass/runner/internal/process"
	"sandglass/runner/internal/shell"
	"sandglass/runner/internal/spawn"
)

const version = "0.1.0"

// A Server is the runner of one sandbox.
type Server struct {
	cfg       *config.Config
	endpoint  *endpoint
	egress    *egressEndpoint // nil: there is no way out of the sandbox
	startedAt time.Time
	spawner   *spawn.Spawner
	shells    *shell.Shells
	processes *process.Table
	exit      func() // ends the process of the runner

	isStopping atomic.Bool
}

func New(cfg *config.Config) (*Server, error) {
	if cfg.Egress == nil {
		return newServer(cfg, nil)
	}
	return newServer(cfg, egress.New(egress.OptionsFor(cfg.Egress)))
}

func newServer(cfg *config.Config, way *egress.Egress) (*Server, error) {
	var id [16]byte
	if _, err := rand.Read(id[:]); err != nil {
		return nil, fmt.Errorf("make boot id: %w", err)
	}
	bootID := hex.EncodeToString(id[:])
	srv := &Server{cfg: cfg, startedAt: time.Now(), spawner: spawn.New(cfg), exit: func() { os.Exit(0) }}
	srv.processes = process.New(cfg, srv.spawner, func() map[int]string { return srv.shells.Names() })
	srv.shells = shell.New(cfg, srv.spawner, srv.processes)
	if way != nil {
		srv.egress = newEgressEndpoint(cfg.Egress.Token, bootID, way)
	}
	srv.endpoint = &endpoint{cfg.Token, bootID, srv.newTable()}
	return srv, nil
}

// Accept serves the connections of a listener until it is closed.
func (srv *Server) Accept(listener net.Listener) { srv.endpoint.accept(listener) }

// ServeCarrier serves the clients on a device for as long as the runner lives.
func (srv *Server) ServeCarrier(name string) error { return srv.endpoint.serveCarrier(name) }

// WarmShell starts the shell main if the configuration asks for it.
func (srv *Server) WarmShell() {
	if srv.cfg.WarmShell {
		srv.shells.StartMain()
	}
}

// Reap reaps children until the process ends.
func (srv *Server) Reap() { srv.spawner.Reaper.Loop() }
