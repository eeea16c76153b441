package shell

import (
	"sort"
	"strings"
)

// quote makes any text one word of a command line.
func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// assignments returns the variables of a command as words to put before it. A shell exports such variables to the
// command and restores its own afterwards.
//
// SECURITY: the names were checked, and the values are quoted.
func (r *execRequest) assignments() string {
	names := make([]string, 0, len(r.Env))
	for name := range r.Env {
		names = append(names, name)
	}
	sort.Strings(names)
	var all strings.Builder
	for _, name := range names {
		all.WriteString(name + "=" + quote(r.Env[name]) + " ")
	}
	return all.String()
}

// shText is the command line for sh with its settings. Without `command`, the variables would remain set after eval.
func (r *execRequest) shText() string {
	line := r.assignments() + "command eval " + quote(r.Cmd)
	if r.StdinPath != "" {
		line += " <" + quote(r.StdinPath)
	}
	if r.Cwd == "" {
		return line
	}
	return "__sandglass_back=$PWD __sandglass_old=${OLDPWD-}\n" +
		"if command cd -- " + quote(r.Cwd) + " 2>/dev/null; then __sandglass_status \"$__sandglass_last\"\n" + line + "\nelse __sandglass_refused=-1; fi"
}
