package oci

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"sandglass/runner/internal/launch/hostdir"
	"sandglass/runner/internal/launch/mount"
)

// A read-only layer may lack the mount point of a folder of the host. The missing mount points are then made in a folder on the session's
// disk that the sandbox does not see, and that folder becomes the topmost layer of an overlay.

// missingPoints are the folders of the host whose mount point belongs to this layer and does not exist.
func (j *startJob) missingPoints(index int) []*hostdir.Folder {
	l := &j.Layers[index]
	if l.Upper != "" {
		return nil // hostdir.Attach makes it
	}
	var missing []*hostdir.Folder
	for i := range j.Folders {
		f := &j.Folders[i]
		if j.layerOf(f.Target) != index {
			continue
		}
		if _, err := statFolder(j.Rootfs, f.Target); errors.Is(err, os.ErrNotExist) {
			missing = append(missing, f)
		}
	}
	return missing
}

// layerOf is the index of the layer that a path is in, or -1 for a path on the disk.
func (j *startJob) layerOf(path string) int {
	for _, s := range j.Disk.Binds {
		if s.Saved && isBelow(path, s.Target) {
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

// addPoints makes the missing mount points below top. Their parents get the owner and mode that they have in the layer.
func (l *layer) addPoints(rootfs, top string, missing []*hostdir.Folder) error {
	if l.Stack == nil && l.Empty == "" {
		return fmt.Errorf("the mount point %s does not exist, and this kernel does not let this user make overlay mounts to add it", missing[0].Target)
	}
	if err := os.RemoveAll(top); err != nil {
		return fmt.Errorf("make mount points: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(top), 0o755); err != nil {
		return fmt.Errorf("make mount points: %w", err)
	}
	for _, f := range missing {
		inLayer := strings.Trim(strings.TrimPrefix(f.Target, l.Target), "/")
		for path := "."; ; {
			st, err := statFolder(rootfs, filepath.Join(l.Target, path))
			if errors.Is(err, os.ErrNotExist) {
				st, err = &syscall.Stat_t{Mode: 0o755, Uid: uint32(f.PointUID), Gid: uint32(f.PointGID)}, nil
			}
			if err == nil {
				err = mount.EnsureDir(filepath.Join(top, path), int(st.Uid), int(st.Gid), os.FileMode(st.Mode&0o777))
			}
			if err != nil {
				return fmt.Errorf("make mount point %s: %w", f.Target, err)
			}
			if path == inLayer {
				break
			}
			rest := strings.TrimPrefix(inLayer, strings.TrimPrefix(path+"/", "./"))
			path = filepath.Join(path, strings.SplitN(rest, "/", 2)[0])
		}
	}
	l.points = top
	return nil
}

// statFolder stats a folder of the root filesystem. A link in any component is an error.
func statFolder(rootfs, path string) (*syscall.Stat_t, error) {
	target, err := mount.OpenPoint(rootfs, path)
	if err != nil {
		return nil, err
	}
	defer target.Close()
	st := &syscall.Stat_t{}
	if err := syscall.Fstat(target.FD, st); err != nil {
		return nil, err
	}
	if st.Mode&syscall.S_IFMT != syscall.S_IFDIR {
		return nil, syscall.ENOTDIR
	}
	return st, nil
}
