package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"sandglass/runner/internal/config"
	"sandglass/runner/internal/confine"
	"sandglass/runner/internal/guest"
	"sandglass/runner/internal/network"
)

// openConfig reads the configuration from the source that the options name.
func openConfig(opts *options) (*config.Config, error) {
	var file *os.File
	switch {
	case opts.guest:
		// These steps are slow and the same for every session: do them before waiting for the session.
		if err := confine.LimitCapabilities(); err != nil {
			return nil, err
		}
		if err := network.AddLoopback(guest.Loopback); err != nil {
			return nil, err
		}
		entered, err := guest.Enter(opts.guestArgs)
		if err != nil {
			return nil, err
		}
		opts.egressCarrier = entered.EgressCarrier
		return config.Read(bytes.NewReader(entered.Runner))
	case opts.configLine:
		return config.Read(&firstLine{from: os.Stdin})
	case opts.configFD >= 0:
		file = os.NewFile(uintptr(opts.configFD), "configuration")
	case opts.configFile != "":
		opened, err := os.Open(opts.configFile)
		if err != nil {
			return nil, fmt.Errorf("open configuration: %w", err)
		}
		file = opened
	default:
		return nil, errors.New("--config-fd or --config-file is required")
	}
	defer file.Close()
	return config.Read(file)
}

// A firstLine reads up to the first newline and no further, because a client's bytes follow.
type firstLine struct {
	from io.Reader
	over bool
}

func (l *firstLine) Read(p []byte) (int, error) {
	if l.over || len(p) == 0 {
		return 0, io.EOF
	}
	n, err := l.from.Read(p[:1])
	l.over = n == 1 && p[0] == '\n'
	return n, err
}
