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

// Where a session may write whatever its root is; what is missing there is made where it is.
var writablePlaces = []string{"/workspace/", "/home/sandbox/", "/tmp/", "/run/"}

// missingTargets are the places for shares that the root does not have and that cannot be made in it.
func missingTargets(shares []share) ([]string, error) {
	var missing []string
	for _, s := range shares {
		if isWritable(s.Target) {
			continue
		}
		place, err := inRoot(s.Target)
		if errors.Is(err, syscall.ENOENT) {
			missing = append(missing, s.Target)
			continue
		}
		if err != nil {
			return nil, err
		}
		place.Close()
	}
	return missing, nil
}

// mountShares mounts folders of the host, those above before those below.
func mountShares(shares []share) error {
	sort.Slice(shares, func(i, k int) bool { return shares[i].Target < shares[k].Target })
	for _, s := range shares {
		if isWritable(s.Target) {
			if err := makeWay(s.Target); err != nil {
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

// makeWay makes the folders that are missing on the way to a place, as the sandbox's user would.
func makeWay(target string) error {
	way := ""
	for _, part := range strings.Split(strings.Trim(target, "/"), "/") {
		parent := way
		way = path.Join(way, "/", part)
		place, err := inRoot(way)
		if err == nil {
			place.Close()
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
	for _, place := range writablePlaces {
		if strings.HasPrefix(target, place) {
			return true
		}
	}
	return false
}
