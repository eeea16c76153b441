package main

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"sync/atomic"
	"time"
)

const version = "0.1.0"

// A runner is everything that one sandbox has.
type runner struct {
	cfg        *config
	bootID     string
	startedAt  time.Time
	reaper     *reaper
	shells     shells
	executions executions
	processes  processes
	exit       func() // ends the runner's own process

	isStopping atomic.Bool
}

func newRunner(cfg *config) (*runner, error) {
	var id [16]byte
	if _, err := rand.Read(id[:]); err != nil {
		return nil, fmt.Errorf("make boot id: %w", err)
	}
	return &runner{
		cfg: cfg, bootID: hex.EncodeToString(id[:]), startedAt: time.Now(), reaper: newReaper(),
		shells: shells{byName: map[string]*shell{}}, processes: processes{byPID: map[int]*process{}},
		exit: func() { os.Exit(0) },
	}, nil
}
