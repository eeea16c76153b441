package process

import (
	"strings"
	"testing"

	"sandglass/runner/internal/runnertest"
)

func TestProcessTags(t *testing.T) {
	runnertest.CheckNames(t, isTag,
		[]string{"a", "Z", "7", "web:8080", "a.b-c_d", strings.Repeat("x", 64)},
		[]string{"", ":a", ".a", "-a", "a/b", "a b", "a\n", "é", "a\x00", strings.Repeat("x", 65)})
}
