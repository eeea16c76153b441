package shell

import (
	"strings"
	"testing"

	"sandglass/runner/internal/runnertest"
)

func TestShellNames(t *testing.T) {
	runnertest.CheckNames(t, isName,
		[]string{"a", "0", "main", "a-b_c", "9" + strings.Repeat("_", 31), "main@root", "a@sandbox"},
		[]string{"", "-a", "_a", "A", "a.b", "a b", "a\n", "ä", "a\xff", strings.Repeat("a", 33), "@root", "a@other"})
}
