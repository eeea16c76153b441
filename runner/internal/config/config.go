// Package config reads the configuration of the runner.
package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"sandglass/runner/internal/account"
	"sandglass/runner/internal/wire"
)

const (
	maxConfigBytes = 1 << 20
	minToken       = 16 // characters
	egressDefault  = 4096
	egressMost     = 65_536
)

// A Config is decided by the program that starts the runner. Nothing in the sandbox can change it.
type Config struct {
	Token     string            `json:"token"`
	Workdir   string            `json:"workdir"`
	Home      string            `json:"home"`
	User      *account.User     `json:"user"` // nil: everything runs as the runner's own user
	Env       map[string]string `json:"env"`
	FileRoots []string          `json:"file_roots"`
	Loopback  []string          `json:"loopback"` // addresses for lo, with prefix length
	MaxShells int               `json:"max_shells"`
	Shell     string            `json:"shell"` // program of shells; empty means bash, or sh where there is no bash
	WarmShell bool              `json:"warm_shell"`
	Seccomp   []byte            `json:"seccomp"`   // a filter program for the runner and all that it starts
	Threads   int               `json:"threads"`   // created at start, where the sandbox could use up the limit later
	Processes uint64            `json:"processes"` // limit per user of the sandbox; 0 means no limit of its own
	Egress    *Egress           `json:"egress"`    // nil: no name of a host is resolved, and no connection leaves the sandbox
}

// Egress configures the way out of the sandbox.
type Egress struct {
	Token      string `json:"token"`       // of the egress endpoint; it permits nothing else
	MaxNames   int    `json:"max_names"`   // names with an address of their own
	MaxWaiting int    `json:"max_waiting"` // connections that nobody has taken yet
}

// Read reads one JSON object up to the end of r.
func Read(r io.Reader) (*Config, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxConfigBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	if len(data) > maxConfigBytes {
		return nil, fmt.Errorf("configuration is larger than %d bytes", maxConfigBytes)
	}
	cfg := &Config{}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(cfg); err != nil {
		return nil, fmt.Errorf("parse configuration: %w", err)
	}
	return cfg, cfg.complete()
}

// complete fills in the defaults and rejects invalid values.
func (c *Config) complete() error {
	if c.Threads < 0 || c.Threads > 64 {
		return fmt.Errorf("configuration: threads must be 0 to 64")
	}
	if len(c.Token) < minToken {
		return fmt.Errorf("configuration: token must have at least %d characters", minToken)
	}
	if c.Egress != nil {
		if err := c.Egress.complete(c.Token); err != nil {
			return err
		}
	}
	if c.Workdir == "" {
		c.Workdir = "/workspace"
	}
	if c.Home == "" {
		c.Home = "/home/sandbox"
	}
	if len(c.FileRoots) == 0 {
		c.FileRoots = []string{c.Workdir, "/tmp", c.Home}
	}
	if c.MaxShells == 0 {
		c.MaxShells = 64
	}
	for _, path := range append([]string{c.Workdir, c.Home}, c.FileRoots...) {
		if !filepath.IsAbs(path) {
			return fmt.Errorf("configuration: %q must be an absolute path", path)
		}
	}
	return nil
}

func (e *Egress) complete(token string) error {
	if len(e.Token) < minToken {
		return fmt.Errorf("configuration: egress.token must have at least %d characters", minToken)
	}
	// SECURITY: with one token for both endpoints, the egress process could run commands in the sandbox.
	if e.Token == token {
		return fmt.Errorf("configuration: egress.token must differ from token")
	}
	for name, value := range map[string]*int{"max_names": &e.MaxNames, "max_waiting": &e.MaxWaiting} {
		if *value == 0 {
			*value = egressDefault
		}
		if *value < 1 || *value > egressMost {
			return fmt.Errorf("configuration: egress.%s must be 1 to %d", name, egressMost)
		}
	}
	return nil
}

// Account returns the user that a request names: the configured one or root. The result is nil for root and where no
// user is configured: programs then run as the runner's own user.
func (c *Config) Account(name string) (*account.User, error) {
	switch {
	case name == "root" && os.Geteuid() == 0:
		return nil, nil
	case name == "root":
		return nil, wire.Unsupported("nobody is root in this sandbox")
	case name == "" || c.User != nil && name == c.User.Name || name == "sandbox":
		return c.User, nil
	}
	return nil, wire.Invalid("user must be sandbox or root, not %q", name)
}
