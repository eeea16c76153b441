package oci

import (
	"fmt"
	"io"
	"os"
	"sort"
	"strings"
	"syscall"
	"unicode/utf8"

	"sandglass/runner/internal/launch/mount"
)

// A findJob asks what an image has at some paths. Links are followed as a program in the image would follow them. A path with the part * stands for
// one path per name in the folder before it; the result has those of them that exist, and any other path in any case.
type findJob struct {
	Stack  stack    `json:"stack"`
	Folder string   `json:"folder"` // an empty folder of the daemon's
	Paths  []string `json:"paths"`
}

// A found is what is at a path: kind is folder, file, other or "" for nothing. Path is where it is, without links; content is that of a file.
// Mode and owner are those of what was found.
type found struct {
	Kind    string `json:"kind"`
	Path    string `json:"path,omitempty"`
	Content []byte `json:"content,omitempty"`
	Mode    uint32 `json:"mode,omitempty"`
	UID     uint32 `json:"uid,omitempty"`
	GID     uint32 `json:"gid,omitempty"`
}

// Longer files have no content in the result, and neither have those for which no space is left in it: the daemon asks for files of text, none of
// which is long, and limits the length of a result.
const (
	maxFoundBytes      = 1 << 20
	maxFoundTotalBytes = 8 << 20
)

// Names of one folder that stand for a *, in their order.
const maxFoundNames = 256

// find mounts the image in this process's mount namespace.
//
// SECURITY: the image decides what a path leads to. So the kernel resolves it inside the image, and devices and fifos are not opened.
func find(j *findJob) (map[string]found, error) {
	target, err := mount.Open(j.Folder)
	if err != nil {
		return nil, err
	}
	defer target.Close()
	if err := j.Stack.mount(target, nil, "", ""); err != nil {
		return nil, err
	}
	root, err := mount.Open(j.Folder)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	results, left := map[string]found{}, maxFoundTotalBytes
	for _, path := range j.Paths {
		for _, each := range expand(root, path) {
			at, err := findAt(root, each, left)
			if err != nil {
				return nil, err
			}
			if at.Kind == "" && each != path {
				continue
			}
			left -= len(at.Content)
			results[each] = at
		}
	}
	return results, nil
}

// expand returns the paths that a path with a * stands for, and any other path as it is.
func expand(root mount.Handle, path string) []string {
	folder, rest, isPattern := strings.Cut(path, "/*/")
	if !isPattern {
		return []string{path}
	}
	fd, errno := openInRoot(root, folder, syscall.O_RDONLY|syscall.O_DIRECTORY)
	if errno != 0 {
		return nil
	}
	dir := os.NewFile(uintptr(fd), folder)
	defer dir.Close()
	names, _ := dir.Readdirnames(-1) // the names that could be read
	sort.Strings(names)
	var paths []string
	for _, name := range names {
		if utf8.ValidString(name) && len(paths) < maxFoundNames {
			paths = append(paths, folder+"/"+name+"/"+rest)
		}
	}
	return paths
}

func findAt(root mount.Handle, path string, left int) (found, error) {
	fd, errno := openInRoot(root, path, mount.OPath)
	if errno != 0 {
		return found{}, nil // missing, or a dangling link
	}
	defer syscall.Close(fd)
	st := &syscall.Stat_t{}
	if err := syscall.Fstat(fd, st); err != nil {
		return found{}, fmt.Errorf("stat %s: %w", path, err)
	}
	real, err := pathInRoot(root, fd)
	if err != nil {
		return found{}, err
	}
	at := found{Kind: "file", Path: real, Mode: st.Mode & 0o7777, UID: st.Uid, GID: st.Gid}
	switch st.Mode & syscall.S_IFMT {
	case syscall.S_IFDIR:
		at.Kind = "folder"
		return at, nil
	case syscall.S_IFREG:
	default:
		at.Kind = "other"
		return at, nil
	}
	if st.Size > maxFoundBytes || st.Size > int64(left) {
		return at, nil
	}
	file, errno := openInRoot(root, path, syscall.O_RDONLY|syscall.O_NONBLOCK)
	if errno != 0 {
		return found{}, fmt.Errorf("read %s: %w", path, errno)
	}
	content := os.NewFile(uintptr(file), path)
	defer content.Close()
	data, err := io.ReadAll(io.LimitReader(content, st.Size))
	if err != nil {
		return found{}, fmt.Errorf("read %s: %w", path, err)
	}
	at.Content = data
	return at, nil
}

// pathInRoot is the path of an open file in the image, without links; "" for a name that is not text, which JSON cannot carry.
func pathInRoot(root mount.Handle, fd int) (string, error) {
	top, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", root.FD))
	if err != nil {
		return "", fmt.Errorf("path of the image: %w", err)
	}
	path, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
	if err != nil {
		return "", fmt.Errorf("path of a file of the image: %w", err)
	}
	if path == top {
		return "/", nil
	}
	if !strings.HasPrefix(path, top+"/") || !utf8.ValidString(path) {
		return "", nil
	}
	return path[len(top):], nil
}

func openInRoot(root mount.Handle, path string, flags uint64) (int, syscall.Errno) {
	return mount.OpenAt(root.FD, path, flags, mount.NoMagicLinks|mount.InRoot)
}
