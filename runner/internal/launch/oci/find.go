package oci

import (
	"fmt"
	"io"
	"os"
	"syscall"

	"sandglass/runner/internal/launch/mount"
)

// A findJob asks what an image has at some paths. Links are followed as a program in the image would follow them.
type findJob struct {
	Stack  stack    `json:"stack"`
	Folder string   `json:"folder"` // an empty folder of the daemon's
	Paths  []string `json:"paths"`
}

// A found is what is at a path: kind is folder, file, other or "" for nothing. The content is that of a file up to maxFoundBytes.
type found struct {
	Kind    string `json:"kind"`
	Content []byte `json:"content,omitempty"`
}

// Longer files have no content in the result: the daemon asks for small files of text only.
const maxFoundBytes = 128 << 10

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
	results := map[string]found{}
	for _, path := range j.Paths {
		if results[path], err = findAt(root, path); err != nil {
			return nil, err
		}
	}
	return results, nil
}

func findAt(root mount.Handle, path string) (found, error) {
	fd, errno := openInRoot(root, path, mount.OPath)
	if errno != 0 {
		return found{}, nil // missing, or a dangling link
	}
	defer syscall.Close(fd)
	st := &syscall.Stat_t{}
	if err := syscall.Fstat(fd, st); err != nil {
		return found{}, fmt.Errorf("stat %s: %w", path, err)
	}
	switch st.Mode & syscall.S_IFMT {
	case syscall.S_IFDIR:
		return found{Kind: "folder"}, nil
	case syscall.S_IFREG:
	default:
		return found{Kind: "other"}, nil
	}
	if st.Size > maxFoundBytes {
		return found{Kind: "file"}, nil
	}
	file, errno := openInRoot(root, path, syscall.O_RDONLY|syscall.O_NONBLOCK)
	if errno != 0 {
		return found{}, fmt.Errorf("read %s: %w", path, errno)
	}
	content := os.NewFile(uintptr(file), path)
	defer content.Close()
	data, err := io.ReadAll(io.LimitReader(content, maxFoundBytes))
	if err != nil {
		return found{}, fmt.Errorf("read %s: %w", path, err)
	}
	return found{"file", data}, nil
}

func openInRoot(root mount.Handle, path string, flags uint64) (int, syscall.Errno) {
	return mount.OpenAt(root.FD, path, flags, mount.NoMagicLinks|mount.InRoot)
}
