// The launcher is what the daemon runs on the host, outside every sandbox, for work that Node cannot do: mounts, namespaces, descriptors,
// and unpacking with the owners of files. LAUNCHER.md describes each command. The program inside a sandbox is cmd/runner.
package main

import (
	"fmt"
	"os"

	"sandglass/runner/internal/launch/disk"
	"sandglass/runner/internal/launch/microvm"
	"sandglass/runner/internal/launch/oci"
	"sandglass/runner/internal/launch/userns"
	"sandglass/runner/internal/unpack"
)

// Each command gets its arguments and returns the exit status.
var commands = map[string]func(args []string) int{
	"oci":       func([]string) int { return oci.Main() },
	"hold-disk": func([]string) int { return status("hold-disk", disk.Hold()) },
	"enter":     func(args []string) int { return status("enter", userns.Enter(args)) },
	"supervise": func([]string) int { return status("supervise", microvm.Supervise()) },
	"snapshot":  func([]string) int { return status("snapshot", microvm.Snapshot()) },
	"tsc":       func([]string) int { return printTSC() },
	"capture":   func([]string) int { return oci.Capture() },
	"unpack":    unpack.Main,
	"devices":   func([]string) int { return unpack.Devices() },
	"restack":   unpack.Restack,
}

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: launcher COMMAND [ARGUMENT]…")
		os.Exit(2)
	}
	command, ok := commands[os.Args[1]]
	if !ok {
		fmt.Fprintf(os.Stderr, "launcher: no command %q\n", os.Args[1])
		os.Exit(2)
	}
	os.Exit(command(os.Args[2:]))
}

func status(command string, err error) int {
	if err == nil {
		return 0
	}
	fmt.Fprintf(os.Stderr, "launcher %s: %v\n", command, err)
	return 1
}

func printTSC() int {
	_, err := fmt.Println(microvm.TSCKhz())
	return status("tsc", err)
}
