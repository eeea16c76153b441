package main

import "strings"

const (
	lowerCase = "abcdefghijklmnopqrstuvwxyz"
	digits    = "0123456789"
	letters   = lowerCase + "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
)

// These are no regular expressions: to compile two of them was half of what the runner did before it began, at every start.

// isShellName holds for 1 to 32 of a-z, 0-9, _ and -, the first of them a letter or a digit, and @root or @sandbox behind them.
func isShellName(name string) bool {
	if user := userOf(name); user != "" {
		name = strings.TrimSuffix(name, "@"+user)
	}
	return isName(name, 32, lowerCase+digits, "_-")
}

func invalidShellName() *runnerError {
	return invalid("shell name must be 1 to 32 of a-z, 0-9, _ and -, and may end in @root or @sandbox")
}

// userOf gives the user that a shell's name ends in; empty when it ends in none.
func userOf(name string) string {
	for _, user := range []string{defaultUser, "root"} {
		if strings.HasSuffix(name, "@"+user) {
			return user
		}
	}
	return ""
}

// isEnvName holds for letters, digits and _, the first of them no digit.
func isEnvName(name string) bool { return isName(name, len(name), letters+"_", digits) }

// isProcessTag holds for 1 to 64 letters, digits, _, ., : and -, the first of them a letter or a digit.
func isProcessTag(tag string) bool { return isName(tag, 64, letters+digits, "_.:-") }

func isName(name string, max int, anywhere, later string) bool {
	if name == "" || len(name) > max || strings.IndexByte(anywhere, name[0]) < 0 {
		return false
	}
	return strings.Trim(name, anywhere+later) == ""
}
