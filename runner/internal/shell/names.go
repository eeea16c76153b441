package shell

import (
	"strings"

	"sandglass/runner/internal/account"
	"sandglass/runner/internal/wire"
)

// isName holds for 1 to 32 of a-z, 0-9, _ and -, the first of them a letter or a digit, and @root or @sandbox behind them.
func isName(name string) bool {
	if user := userOf(name); user != "" {
		name = strings.TrimSuffix(name, "@"+user)
	}
	return wire.IsName(name, 32, wire.LowerCase+wire.Digits, "_-")
}

func invalidShellName() *wire.Error {
	return wire.Invalid("shell name must be 1 to 32 of a-z, 0-9, _ and -, and may end in @root or @sandbox")
}

// userOf gives the user that a shell's name ends in; empty when it ends in none.
func userOf(name string) string {
	for _, user := range []string{account.Default, "root"} {
		if strings.HasSuffix(name, "@"+user) {
			return user
		}
	}
	return ""
}

// isEnvName holds for letters, digits and _, the first of them no digit.
func isEnvName(name string) bool { return wire.IsName(name, len(name), wire.Letters+"_", wire.Digits) }
