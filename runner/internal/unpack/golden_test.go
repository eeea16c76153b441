package unpack

import (
	"testing"

	"sandglass/runner/internal/golden"
)

func TestResultsAreThoseOfTheGoldenFiles(t *testing.T) {
	for _, name := range []string{"unpack-result-done", "unpack-result-refused", "unpack-result-device"} {
		golden.RoundTrip(t, name, &result{})
	}
}
