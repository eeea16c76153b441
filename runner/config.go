package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

const maxConfigBytes = 1 << 20

// A config is what the starter of the runner decides; nothing in the sandbox can change it.
type config struct {
	Token     string            `json:"token"`
	Workdir   string            `json:"workdir"`
	Home      string            `json:"home"`
	User      *account          `json:"user"` // nil: everything runs as whoever started the runner
	Env       map[string]string `json:"env"`
	FileRoots []string          `json:"file_roots"`
	Loopback  []string          `json:"loopback"` // addresses with prefix length for lo
	MaxShells int               `json:"max_shells"`
	Shell     string            `json:"shell"` // program of shells; empty: bash, or sh where there is none
	WarmShell bool              `json:"warm_shell"`
	Seccomp   []byte            `json:"seccomp"`   // a filter program for the runner and all it starts
	Threads   int               `json:"threads"`   // made beforehand, where the sandbox could leave none to make
	Processes uint64            `json:"processes"` // that one user of the sandbox may have; 0: as many as whoever started the runner
}

// An account is a user inside the sandbox.
type account struct {
	Name string `json:"name"`
	UID  uint32 `json:"uid"`
	GID  uint32 `json:"gid"`
}

// readConfig reads one JSON object to the end of r.
func readConfig(r io.Reader) (*config, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxConfigBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	if len(data) > maxConfigBytes {
		return nil, fmt.Errorf("configuration is larger than %d bytes", maxConfigBytes)
	}
	cfg := &config{}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(cfg); err != nil {
		return nil, fmt.Errorf("parse configuration: %w", err)
	}
	return cfg, cfg.complete()
}

// complete fills the defaults and refuses what cannot work.
func (c *config) complete() error {
	if c.Threads < 0 || c.Threads > 64 {
		return fmt.Errorf("configuration: threads must be 0 to 64")
	}
	if len(c.Token) < 16 {
		return fmt.Errorf("configuration: token must have at least 16 characters")
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

// account gives the user that a request names: the configured one or root.
// Without a configured user both are whoever runs the runner, and the result is nil.
func (c *config) account(name string) (*account, error) {
	switch {
	case name == "root" && os.Geteuid() == 0:
		return nil, nil
	case name == "root":
		return nil, unsupported("nobody is root in this sandbox")
	case name == "" || c.User != nil && name == c.User.Name || name == "sandbox":
		return c.User, nil
	}
	return nil, invalid("user must be sandbox or root, not %q", name)
}
