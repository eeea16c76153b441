package guest

import (
	"errors"
	"fmt"
	"os"
	"path"
	"sort"
	"strings"
	"syscall"
)

// Folders in which a session may always write. Missing mount points are made there directly.
var writableFolders = []string{"/workspace/", "/home/sandbox/", "/tmp/", "/run/"}

// missingTargets are the mount points of shares that do not exist and cannot be made without building the root again.
func missingTargets(shares []share) ([]string, error) {
	var missing []string
	for _, s := range shares {
		if isWritable(s.Target) {
			continue
		}
		target, err := inRoot(s.Target)
		if errors.Is(err, syscall.ENOENT) {
			missing = append(missing, s.Target)
			continue
		}
		if err != nil {
			return nil, err
		}
		target.Close()
	}
	return missing, nil
}

// mountShares mounts folders of the host, parents before children.
func mountShares(shares []share) error {
	sort.Slice(shares, func(i, k int) bool { return shares[i].Target < shares[k].Target })
	for _, s := range shares {
		if isWritable(s.Target) {
			if err := makeTarget(s.Target); err != nil {
				return err
			}
		}
		flags, options := uintptr(quietMount), ""
		if s.Readonly {
			flags |= syscall.MS_RDONLY
		}
		if s.Type == "9p" {
			options = "trans=virtio,version=9p2000.L,msize=131072"
		}
		if err := (step{mount{s.Tag, s.Target, s.Type, flags, options}, false}).do(); err != nil {
			return err
		}
	}
	return nil
}

// makeTarget makes the missing folders of a path, owned by the sandbox's user.
func makeTarget(target string) error {
	way := ""
	for _, part := range strings.Split(strings.Trim(target, "/"), "/") {
		parent := way
		way = path.Join(way, "/", part)
		found, err := inRoot(way)
		if err == nil {
			found.Close()
			continue
		}
		if !errors.Is(err, syscall.ENOENT) {
			return err
		}
		folder, err := inRoot(path.Join("/", parent))
		if err != nil {
			return err
		}
		made := fdPath(folder) + "/" + part
		err = os.Mkdir(made, 0o755)
		if err == nil {
			err = os.Lchown(made, sandboxID, sandboxID)
		}
		folder.Close()
		if err != nil {
			return fmt.Errorf("make %s: %w", way, err)
		}
	}
	return nil
}

func isWritable(target string) bool {
	for _, folder := range writableFolders {
		if strings.HasPrefix(target, folder) {
			return true
		}
	}
	return false
}
