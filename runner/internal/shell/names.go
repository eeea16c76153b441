package shell

import (
	"strings"

	"sandglass/runner/internal/account"
	"sandglass/runner/internal/wire"
)

// isName tells whether a shell name has 1 to 32 of a-z, 0-9, _ and -, the first a letter or a digit. It may end in
// @root or @sandbox.
func isName(name string) bool {
	if user := userOf(name); user != "" {
		name = strings.TrimSuffix(name, "@"+user)
	}
	return wire.IsName(name, 32, wire.LowerCase+wire.Digits, "_-")
}

func invalidShellName() *wire.Error {
	return wire.Invalid("shell name must be 1 to 32 of a-z, 0-9, _ and -, and may end in @root or @sandbox")
}

// userOf is the user that a shell name ends in; empty if there is none.
func userOf(name string) string {
	for _, user := range []string{account.Default, "root"} {
		if strings.HasSuffix(name, "@"+user) {
			return user
		}
	}
	return ""
}

// isEnvName tells whether a name has only letters, digits and _, and does not start with a digit.
func isEnvName(name string) bool { return wire.IsName(name, len(name), wire.Letters+"_", wire.Digits) }
