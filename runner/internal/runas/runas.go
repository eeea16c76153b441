// Package runas is the entry `runner as UID GID,GROUP… PROGRAM [ARGUMENT]…`: it becomes a program with the ids of a user, whose error output
// goes where its output goes, so that both stay in their order. Steps of image builds use it; it needs no program of the image.
package runas

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"

	"sandglass/runner/internal/spawn"
)

// Entry is the first argument that selects it.
const Entry = "as"

const (
	notFound = 127
	failed   = 126
)

// Main returns only after a failure.
func Main(args []string) int {
	if len(args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: runner as UID GID[,GROUP]… PROGRAM [ARGUMENT]…")
		return failed
	}
	uid, groups, err := ids(args[0], args[1])
	if err == nil {
		err = syscall.Dup3(1, 2, 0)
	}
	if err == nil {
		err = become(uid, groups)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "runner:", err)
		return failed
	}
	cwd, err := os.Getwd()
	if err != nil {
		cwd = "/"
	}
	program, err := spawn.LookPath(args[2], cwd, os.Getenv("PATH"))
	if err != nil {
		fmt.Fprintf(os.Stderr, "runner: %s: %v\n", args[2], err)
		return notFound
	}
	err = syscall.Exec(program, args[2:], os.Environ())
	fmt.Fprintf(os.Stderr, "runner: %s: %v\n", args[2], err)
	if err == syscall.ENOENT {
		return notFound
	}
	return failed
}

func ids(user, group string) (uid int, groups []int, err error) {
	if uid, err = strconv.Atoi(user); err != nil || uid < 0 {
		return 0, nil, fmt.Errorf("invalid user id %q", user)
	}
	for _, text := range strings.Split(group, ",") {
		gid, err := strconv.Atoi(text)
		if err != nil || gid < 0 {
			return 0, nil, fmt.Errorf("invalid group id %q", text)
		}
		groups = append(groups, gid)
	}
	return uid, groups, nil
}

// become takes the ids of the user, groups first: afterwards the right to do so is gone.
func become(uid int, groups []int) error {
	if err := syscall.Setgroups(groups); err != nil {
		return fmt.Errorf("set groups: %w", err)
	}
	if err := syscall.Setresgid(groups[0], groups[0], groups[0]); err != nil {
		return fmt.Errorf("set group: %w", err)
	}
	if err := syscall.Setresuid(uid, uid, uid); err != nil {
		return fmt.Errorf("set user: %w", err)
	}
	return nil
}
