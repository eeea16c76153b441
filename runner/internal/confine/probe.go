package confine

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"

	"sandglass/runner/internal/sys"
)

// ProbeEntry is the first argument that makes this program the probe.
const ProbeEntry = "probe"

// statusOpen is the exit status of the probe when it could open something.
const statusOpen = 3

// StartProbe starts a program of the same user that tries to open the descriptors and the memory of this process. The
// probe runs while the configuration is read; the function that is returned waits for its result.
//
// SECURITY: where the runner and the programs of the sandbox have the same user, only the runner's not being dumpable
// keeps them from its streams, and so from the token and from answering requests themselves. gVisor has that flag
// and does not enforce it.
func StartProbe(usesStdio bool) (func() error, error) {
	if !usesStdio || os.Geteuid() == 0 {
		return func() error { return nil }, nil
	}
	if err := sys.Prctl(sys.PrSetDumpable, 0); err != nil {
		return nil, err
	}
	child := exec.Command(os.Args[0], ProbeEntry, strconv.Itoa(os.Getpid()))
	if err := child.Start(); err != nil {
		return nil, fmt.Errorf("start probe: %w", err)
	}
	return func() error {
		err := child.Wait()
		var exit *exec.ExitError
		if errors.As(err, &exit) && exit.ExitCode() == statusOpen {
			return errors.New("this kernel lets every program of the sandbox open what the runner has open")
		}
		return err
	}, nil
}

// Probe is the probe's main function. Its argument is the pid of the process to try.
func Probe(args []string) int {
	if len(args) != 1 {
		return 2
	}
	for _, name := range []string{"fd/0", "fd/1", "fd/2", "mem"} {
		for _, mode := range []int{syscall.O_RDONLY, syscall.O_WRONLY} {
			if _, err := syscall.Open("/proc/"+args[0]+"/"+name, mode|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0); err == nil {
				return statusOpen
			}
		}
	}
	return 0
}
