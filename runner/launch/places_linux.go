package launch

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// A read-only layer may lack what a folder of the host is to be mounted on. The missing folders are then in a layer of their own, on the
// session's disk where the sandbox does not see it, and the union of both is shown.

// missingPlaces are the folders of the host whose place would be in this layer and is not there.
func (j *startJob) missingPlaces(index int) []*folder {
	l := &j.Layers[index]
	if l.Upper != "" {
		return nil // made in place
	}
	var missing []*folder
	for i := range j.Folders {
		f := &j.Folders[i]
		if j.layerOf(f.Target) != index {
			continue
		}
		if _, err := lookBelow(j.Rootfs, f.Target); errors.Is(err, os.ErrNotExist) {
			missing = append(missing, f)
		}
	}
	return missing
}

// layerOf is the layer that a path is in, or -1 for one on the disk.
func (j *startJob) layerOf(path string) int {
	for _, s := range j.Disk.Shown {
		if s.Folder && isBelow(path, s.Target) {
			return -1
		}
	}
	found, longest := -1, -1
	for i, l := range j.Layers {
		if isBelow(path, l.Target) && len(l.Target) > longest {
			found, longest = i, len(l.Target)
		}
	}
	return found
}

func isBelow(path, folder string) bool {
	return folder == "/" || path == folder || strings.HasPrefix(path, folder+"/")
}

// addPlaces makes the missing folders below top, and those on the way to them as they are in the layer.
func (l *layer) addPlaces(rootfs, top string, missing []*folder) error {
	if l.Stack == nil && l.Empty == "" {
		return fmt.Errorf("there is no %s to mount on, and this kernel gives this user no overlay mounts to make it with", missing[0].Target)
	}
	if err := os.RemoveAll(top); err != nil {
		return fmt.Errorf("make places to mount on: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(top), 0o755); err != nil {
		return fmt.Errorf("make places to mount on: %w", err)
	}
	for _, f := range missing {
		inLayer := strings.Trim(strings.TrimPrefix(f.Target, l.Target), "/")
		for path := "."; ; {
			st, err := lookBelow(rootfs, filepath.Join(l.Target, path))
			if errors.Is(err, os.ErrNotExist) {
				st, err = &syscall.Stat_t{Mode: 0o755, Uid: uint32(f.PlaceUID), Gid: uint32(f.PlaceGID)}, nil
			}
			if err == nil {
				err = ensureDir(filepath.Join(top, path), int(st.Uid), int(st.Gid), os.FileMode(st.Mode&0o777))
			}
			if err != nil {
				return fmt.Errorf("make %s to mount on: %w", f.Target, err)
			}
			if path == inLayer {
				break
			}
			rest := strings.TrimPrefix(inLayer, strings.TrimPrefix(path+"/", "./"))
			path = filepath.Join(path, strings.SplitN(rest, "/", 2)[0])
		}
	}
	l.places = top
	return nil
}

// lookBelow tells what folder the root filesystem has at a path. A link on the way is an error.
func lookBelow(rootfs, path string) (*syscall.Stat_t, error) {
	target, err := mountPoint(rootfs, path)
	if err != nil {
		return nil, err
	}
	defer target.close()
	st := &syscall.Stat_t{}
	if err := syscall.Fstat(target.fd, st); err != nil {
		return nil, err
	}
	if st.Mode&syscall.S_IFMT != syscall.S_IFDIR {
		return nil, syscall.ENOTDIR
	}
	return st, nil
}
