package runnertest

import (
	"strings"
	"testing"
	"time"
)

// Matches compares terminal output with text in which * stands for anything.
func Matches(want, got string) bool {
	got = strings.ReplaceAll(got, "\r\n", "\n")
	if !strings.Contains(want, "*") || want == "*\n" && got == want {
		return got == want
	}
	for _, part := range strings.Split(want, "*") {
		i := strings.Index(got, part)
		if i < 0 {
			return false
		}
		got = got[i+len(part):]
	}
	return true
}

// Eventually waits for a condition.
func Eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(Patience); time.Now().Before(deadline); {
		if condition() {
			return
		}
		time.Sleep(2 * time.Millisecond)
	}
	t.Fatalf("it never happened that %s", what)
}

// CheckNames fails for every good name that is rejected and every bad one that is accepted.
func CheckNames(t *testing.T, isValid func(string) bool, good, bad []string) {
	t.Helper()
	for _, name := range good {
		if !isValid(name) {
			t.Errorf("%q is rejected", name)
		}
	}
	for _, name := range bad {
		if isValid(name) {
			t.Errorf("%q is accepted", name)
		}
	}
}
