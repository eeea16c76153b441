package launch

import (
	"fmt"
	"os"
	"syscall"
)

// An idRange is one line of an id map: ids from Inside on, as the sandbox sees them, are those from Outside on.
type idRange struct {
	Inside  int `json:"inside"`
	Outside int `json:"outside"`
	Size    int `json:"size"`
}

// userNamespace makes a user namespace with the map and returns its descriptor: what an idmapped mount is told its map with.
//
// A namespace needs a process to be born in. The child is this program again, traced, so that it stops at its exec before its
// first instruction; it is killed there, and the descriptor keeps the namespace.
func userNamespace(ids []idRange) (*os.File, error) {
	maps := make([]syscall.SysProcIDMap, len(ids))
	for i, r := range ids {
		// For an idmapped mount the first column is the id on disk and the second the id it is shown as.
		maps[i] = syscall.SysProcIDMap{ContainerID: r.Inside, HostID: r.Outside, Size: r.Size}
	}
	pid, err := syscall.ForkExec("/proc/self/exe", []string{"runner", "launch"}, &syscall.ProcAttr{
		Sys: &syscall.SysProcAttr{
			Cloneflags: syscall.CLONE_NEWUSER, UidMappings: maps, GidMappings: maps, GidMappingsEnableSetgroups: true,
			Ptrace: true, Pdeathsig: syscall.SIGKILL,
		},
	})
	if err != nil {
		return nil, fmt.Errorf("make a user namespace: %w", err)
	}
	ns, openErr := os.Open(fmt.Sprintf("/proc/%d/ns/user", pid))
	killErr := syscall.Kill(pid, syscall.SIGKILL)
	var status syscall.WaitStatus
	for {
		_, err = syscall.Wait4(pid, &status, 0, nil)
		if err == syscall.EINTR || (err == nil && status.Stopped()) {
			continue
		}
		break
	}
	if openErr != nil {
		return nil, fmt.Errorf("open the user namespace: %w", openErr)
	}
	if killErr != nil || err != nil {
		ns.Close()
		return nil, fmt.Errorf("end the user namespace's first process: %v, %v", killErr, err)
	}
	return ns, nil
}
