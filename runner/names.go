package main

import "strings"

const (
	lowerCase = "abcdefghijklmnopqrstuvwxyz"
	digits    = "0123456789"
	letters   = lowerCase + "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
)

// These are no regular expressions: to compile two of them was half of what the runner did before it began, at every start.

// isShellName holds for 1 to 32 of a-z, 0-9, _ and -, the first of them a letter or a digit.
func isShellName(name string) bool { return isName(name, 32, lowerCase+digits, "_-") }

// isProcessTag holds for 1 to 64 letters, digits, _, ., : and -, the first of them a letter or a digit.
func isProcessTag(tag string) bool { return isName(tag, 64, letters+digits, "_.:-") }

func isName(name string, max int, anywhere, later string) bool {
	if name == "" || len(name) > max || strings.IndexByte(anywhere, name[0]) < 0 {
		return false
	}
	return strings.Trim(name, anywhere+later) == ""
}
