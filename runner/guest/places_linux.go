package guest

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
)

const sandboxID = 1000

// Files below /etc that tell of names, which are the session's own.
var nameFiles = []string{"hosts", "hostname"}

// Where names are asked for. The image's own says: of the runner.
const resolverFile = "resolv.conf"

// A place is a folder that has to be there.
type place struct {
	path  string
	mode  uint32
	owner int
}

// layOut makes the topmost layer of every image: what something is mounted on, whatever the image has.
func layOut() error {
	places := []place{{"", 0o755, 0}}
	for _, name := range []string{"/workspace", "/home", "/home/sandbox", "/etc", "/proc", "/sys", "/dev", "/run", "/.sandglass"} {
		places = append(places, place{name, 0o755, 0})
	}
	if err := makePlaces(baseDir, append(places, place{"/tmp", 0o1777, 0})); err != nil {
		return err
	}
	if err := (mount{"tmpfs", namesDir, "tmpfs", quietNoexec, "size=256k,mode=755"}).do(); err != nil {
		return err
	}
	return writeNames(nil, filepath.Join(baseDir, "etc"), namesDir)
}

// layOutDisk makes what every session's disk has. What an earlier run left is as the session wants it.
func layOutDisk() error {
	return makePlaces(diskDir, []place{
		{"/workspace", 0o755, sandboxID}, {"/home", 0o750, sandboxID}, {"/upper", 0o755, 0}, {"/work", 0o755, 0},
	})
}

func makePlaces(dir string, places []place) error {
	for _, p := range places {
		path := filepath.Join(dir, p.path)
		if info, err := os.Lstat(path); err == nil && info.IsDir() {
			continue
		}
		if err := os.Mkdir(path, 0o700); err != nil {
			return fmt.Errorf("lay out: %w", err)
		}
		if err := os.Chown(path, p.owner, p.owner); err != nil {
			return fmt.Errorf("lay out: %w", err)
		}
		// Go's own Chmod has the sticky bit elsewhere.
		if err := syscall.Chmod(path, p.mode); err != nil {
			return fmt.Errorf("lay out %s: %w", path, err)
		}
	}
	return nil
}

// writeNames writes the files about names into each folder.
func writeNames(contents map[string]string, dirs ...string) error {
	for _, name := range nameFiles {
		for _, dir := range dirs {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(contents[name]), 0o644); err != nil {
				return fmt.Errorf("write %s: %w", name, err)
			}
		}
	}
	return nil
}

// placeRunner puts this program where sessions see it: a copy, since the initramfs itself cannot be shown in part.
func placeRunner() error {
	if err := (mount{"tmpfs", runnerDir, "tmpfs", quietMount, "mode=755"}).do(); err != nil {
		return err
	}
	source, err := os.Open(Program)
	if err != nil {
		return fmt.Errorf("place the runner: %w", err)
	}
	defer source.Close()
	target, err := os.OpenFile(runnerDir+"/runner", os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		return fmt.Errorf("place the runner: %w", err)
	}
	defer target.Close()
	if _, err := io.Copy(target, source); err != nil {
		return fmt.Errorf("place the runner: %w", err)
	}
	return nil
}
