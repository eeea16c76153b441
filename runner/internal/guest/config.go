package guest

import (
	"encoding/json"
	"fmt"

	"sandglass/runner/internal/rlimit"
	"sandglass/runner/internal/strictjson"
)

// A config is the first message on the control port. It turns a waiting machine into the machine of one session.
type config struct {
	Type     string `json:"type"`
	Hostname string `json:"hostname"`
	// Entropy is from the host. The kernel's own state may come from a snapshot that other machines start from too.
	Entropy      []byte            `json:"entropy"`
	ClockMs      int64             `json:"clock_ms"`
	ReadonlyRoot bool              `json:"readonly_root"`
	Names        map[string]string `json:"names"` // contents of files below /etc
	Limits       limits            `json:"limits"`
	Rlimits      []rlimit.Limit    `json:"rlimits"`
	Shares       []share           `json:"shares"`
	Bridged      bool              `json:"bridged"` // the machine has a network card on a bridge of the host
	// Runner is the runner's configuration, passed on as it is.
	Runner json.RawMessage `json:"runner"`

	resolver string // content of resolv.conf, for a bridged machine
}

type limits struct {
	MemoryBytes int64 `json:"memory_bytes"`
	Pids        int   `json:"pids"`
	// CPUQuotaUsec is the processor time in each 100 ms; 0 if the number of processors is the limit.
	CPUQuotaUsec int `json:"cpu_quota_usec"`
}

// A share is a folder of the host and its mount point.
type share struct {
	Type     string `json:"type"` // virtiofs or 9p
	Tag      string `json:"tag"`
	Target   string `json:"target"`
	Readonly bool   `json:"readonly"`
}

func parseConfig(line []byte) (*config, error) {
	cfg := &config{}
	if err := strictjson.Decode(line, cfg); err != nil {
		return nil, fmt.Errorf("parse configuration: %w", err)
	}
	if cfg.Type != "config" {
		return nil, fmt.Errorf("the first message has type %q instead of config", cfg.Type)
	}
	return cfg, nil
}
