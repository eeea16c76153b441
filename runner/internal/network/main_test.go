package network

import (
	"testing"

	"sandglass/runner/internal/runnertest"
)

func TestMain(m *testing.M) { runnertest.Main(m) }
