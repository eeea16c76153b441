package guest

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
)

const sandboxID = 1000

// Files in /etc with names that differ between sessions.
var nameFiles = []string{"hosts", "hostname"}

// The image's own resolv.conf names the runner as name server.
const resolverFile = "resolv.conf"

// A folder is made if it is missing.
type folder struct {
	path  string
	mode  uint32
	owner int
}

// makeMountPointLayer makes the topmost layer of every root: the mount points that a session needs, whatever the image has.
func makeMountPointLayer() error {
	folders := []folder{{"", 0o755, 0}}
	for _, name := range []string{"/workspace", "/home", "/home/sandbox", "/etc", "/proc", "/sys", "/dev", "/run", "/.sandglass"} {
		folders = append(folders, folder{name, 0o755, 0})
	}
	if err := makeFolders(baseDir, append(folders, folder{"/tmp", 0o1777, 0})); err != nil {
		return err
	}
	if err := (mount{"tmpfs", namesDir, "tmpfs", quietNoexec, "size=256k,mode=755"}).do(); err != nil {
		return err
	}
	return writeNames(nil, filepath.Join(baseDir, "etc"), namesDir)
}

// makeDiskFolders makes the folders of a session's disk. Those that an earlier run left keep their owner and mode.
func makeDiskFolders() error {
	return makeFolders(diskDir, []folder{
		{"/workspace", 0o755, sandboxID}, {"/home", 0o750, sandboxID}, {"/upper", 0o755, 0}, {"/work", 0o755, 0},
	})
}

func makeFolders(dir string, folders []folder) error {
	for _, p := range folders {
		path := filepath.Join(dir, p.path)
		if info, err := os.Lstat(path); err == nil && info.IsDir() {
			continue
		}
		if err := os.Mkdir(path, 0o700); err != nil {
			return fmt.Errorf("make folder: %w", err)
		}
		if err := os.Chown(path, p.owner, p.owner); err != nil {
			return fmt.Errorf("make folder: %w", err)
		}
		// os.Chmod has the sticky bit at another position.
		if err := syscall.Chmod(path, p.mode); err != nil {
			return fmt.Errorf("make folder %s: %w", path, err)
		}
	}
	return nil
}

// writeNames writes the name files into each folder.
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

// copyRunner copies this program to the folder that sessions see, because a folder of an initramfs cannot be bind-mounted.
func copyRunner() error {
	if err := (mount{"tmpfs", runnerDir, "tmpfs", quietMount, "mode=755"}).do(); err != nil {
		return err
	}
	source, err := os.Open(Program)
	if err != nil {
		return fmt.Errorf("copy the runner: %w", err)
	}
	defer source.Close()
	target, err := os.OpenFile(runnerDir+"/runner", os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		return fmt.Errorf("copy the runner: %w", err)
	}
	defer target.Close()
	if _, err := io.Copy(target, source); err != nil {
		return fmt.Errorf("copy the runner: %w", err)
	}
	return nil
}
