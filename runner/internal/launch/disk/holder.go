package disk

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"sandglass/runner/internal/launch/pidfd"
)

// A tmpfs exists as long as a process uses it. The holder is a process that only keeps the saved folders of a tmpfs open, so that the
// files outlive a machine that ended by itself. An end job then saves them to a tar in the session's folder and kills the holder.

// A Holder is a holder process that was just started.
type Holder struct {
	Identity *pidfd.Identity // nil where the disk needs none
	release  *os.File
}

// Descriptors of the holder: the pipe, then one per saved folder.
const (
	holderPipe        = 3
	holderFirstFolder = 4
)

// StartHolder starts the holder of a tmpfs. Its command line names the session's folder, by which StartHolder's caller can find it. It ends
// with this process unless it was released.
func StartHolder(sessionFolder, mounted string, d *Disk) (*Holder, error) {
	if d.Image != "" {
		return &Holder{}, nil
	}
	waiting, release, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make pipe: %w", err)
	}
	defer waiting.Close()
	inherited := []*os.File{waiting}
	for _, s := range savedFolders(d.Binds) {
		dir, err := os.Open(filepath.Join(mounted, s.Path))
		if err != nil {
			return nil, fmt.Errorf("open %s of the disk: %w", s.Path, err)
		}
		defer dir.Close()
		inherited = append(inherited, dir)
	}
	cmd := &exec.Cmd{Path: "/proc/self/exe", Args: HolderArgs(sessionFolder), Dir: "/", ExtraFiles: inherited,
		SysProcAttr: &syscall.SysProcAttr{Setsid: true}}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the disk holder: %w", err)
	}
	identity, err := pidfd.Identify(cmd.Process.Pid)
	if err != nil {
		return nil, err
	}
	return &Holder{identity, release}, nil
}

// HolderArgs is the command line of the holder of a session's disk.
func HolderArgs(sessionFolder string) []string {
	return []string{"launcher", "hold-disk", sessionFolder}
}

// Release lets the holder live on without this process. Before that, a launcher that is killed takes the holder along.
func (h *Holder) Release() error {
	if h.Identity == nil {
		return nil
	}
	if _, err := h.release.Write([]byte(".")); err != nil {
		return fmt.Errorf("release the disk holder: %w", err)
	}
	return h.release.Close()
}

// Hold is the holder's life. It returns only if it is not released; an end job kills it.
func Hold() error {
	var word [1]byte
	if n, err := os.NewFile(holderPipe, "pipe").Read(word[:]); n == 0 {
		return fmt.Errorf("not released: %w", err)
	}
	for {
		time.Sleep(24 * time.Hour)
	}
}

// Save writes the folders that a holder has open to a tar at path.
func Save(holder *pidfd.Identity, binds []Bind, path string) error {
	var folders []openFolder
	for i, s := range savedFolders(binds) {
		dir, err := os.Open(fmt.Sprintf("/proc/%d/fd/%d", holder.Pid, holderFirstFolder+i))
		if err != nil {
			return fmt.Errorf("open %s of the disk: %w", s.Path, err)
		}
		defer dir.Close()
		folders = append(folders, openFolder{s.Path, dir})
	}
	return save(folders, path)
}

func savedFolders(binds []Bind) []Bind {
	var folders []Bind
	for _, s := range binds {
		if s.Saved {
			folders = append(folders, s)
		}
	}
	return folders
}
