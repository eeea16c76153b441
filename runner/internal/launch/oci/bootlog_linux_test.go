package oci

import (
	"errors"
	"strings"
	"syscall"
	"testing"
)

func TestTheBootLogIsBoundedAndSealed(t *testing.T) {
	file, err := boundedFile(4096)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.WriteString("first\nlast\n"); err != nil {
		t.Fatal(err)
	}
	if got := readText(file); got != "first\nlast\n" {
		t.Errorf("it holds %q", got)
	}
	// SECURITY: a sandbox that writes for ever fills nothing.
	if _, err := file.Write(make([]byte, 8192)); err == nil {
		t.Error("it grew")
	}
	if err := file.Truncate(8192); !errors.Is(err, syscall.EPERM) {
		t.Errorf("resizing: %v, want EPERM", err)
	}
}

func TestASummaryIsTheFirstAndTheLastLine(t *testing.T) {
	long := strings.Repeat("x", 600)
	for text, want := range map[string]string{
		"":                              "",
		"one line\n":                    "one line",
		"error: no\nusage:\n  run\nend": "error: no … end",
		long + "\nend":                  long[:500] + " … end",
	} {
		if got := summary(text); got != want {
			t.Errorf("%q: got %q", text, got)
		}
	}
}
