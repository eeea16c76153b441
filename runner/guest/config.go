package guest

import (
	"encoding/json"
	"fmt"
)

// A config is what makes a waiting machine one session's.
type config struct {
	Type     string `json:"type"`
	Hostname string `json:"hostname"`
	// Entropy is fresh from the host: the kernel's own may have come with a snapshot that others start from, too.
	Entropy      []byte            `json:"entropy"`
	ClockMs      int64             `json:"clock_ms"`
	ReadonlyRoot bool              `json:"readonly_root"`
	Names        map[string]string `json:"names"` // contents of files below /etc
	Limits       limits            `json:"limits"`
	Rlimits      []rlimit          `json:"rlimits"`
	Shares       []share           `json:"shares"`
	Bridged      bool              `json:"bridged"` // the machine has a network card
	// Runner is the runner's own configuration, which it gets as it is.
	Runner json.RawMessage `json:"runner"`

	resolver string // content of resolv.conf, where there is a network card
}

type limits struct {
	MemoryBytes int64 `json:"memory_bytes"`
	Pids        int   `json:"pids"`
	// CPUQuotaUsec of each 100 ms; 0 where the number of processors is the limit.
	CPUQuotaUsec int `json:"cpu_quota_usec"`
}

type rlimit struct {
	Resource int    `json:"resource"`
	Limit    uint64 `json:"limit"`
}

// A share is a folder of the host.
type share struct {
	Type     string `json:"type"` // virtiofs or 9p
	Tag      string `json:"tag"`
	Target   string `json:"target"`
	Readonly bool   `json:"readonly"`
}

func parseConfig(line []byte) (*config, error) {
	cfg := &config{}
	if err := json.Unmarshal(line, cfg); err != nil {
		return nil, fmt.Errorf("parse configuration: %w", err)
	}
	if cfg.Type != "config" || len(cfg.Runner) == 0 {
		return nil, fmt.Errorf("the first message is not a configuration")
	}
	return cfg, nil
}
