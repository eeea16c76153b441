package main

import (
	"strings"
	"testing"
)

func TestNames(t *testing.T) {
	for _, c := range []struct {
		is   func(string) bool
		good []string
		bad  []string
	}{
		{isShellName, []string{"a", "0", "main", "a-b_c", "9" + strings.Repeat("_", 31)},
			[]string{"", "-a", "_a", "A", "a.b", "a b", "a\n", "ä", "a\xff", strings.Repeat("a", 33)}},
		{isProcessTag, []string{"a", "Z", "7", "web:8080", "a.b-c_d", strings.Repeat("x", 64)},
			[]string{"", ":a", ".a", "-a", "a/b", "a b", "a\n", "é", "a\x00", strings.Repeat("x", 65)}},
	} {
		for _, name := range c.good {
			if !c.is(name) {
				t.Errorf("%q is refused", name)
			}
		}
		for _, name := range c.bad {
			if c.is(name) {
				t.Errorf("%q is taken", name)
			}
		}
	}
}
