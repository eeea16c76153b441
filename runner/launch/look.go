package launch

import (
	"fmt"
	"io"
	"os"
	"syscall"
)

// A lookJob asks what an image has at some paths, links followed as its own programs would.
type lookJob struct {
	Stack  stack    `json:"stack"`
	Folder string   `json:"folder"` // an empty folder of the daemon's
	Paths  []string `json:"paths"`
}

// A looked is what is there: kind is folder, file, other or "" for nothing. Of a file the content is told, up to a bound.
type looked struct {
	Kind    string `json:"kind"`
	Content []byte `json:"content,omitempty"`
}

// Longer files are not what they are taken for.
const maxLookedBytes = 128 << 10

// look mounts the image for this process alone.
//
// SECURITY: what is opened is the image's choice, so the kernel resolves it inside the image, and devices and fifos are not opened.
func look(j *lookJob) (map[string]looked, error) {
	target, err := openPath(j.Folder)
	if err != nil {
		return nil, err
	}
	defer target.close()
	if err := j.Stack.mount(target, nil, "", ""); err != nil {
		return nil, err
	}
	root, err := openPath(j.Folder)
	if err != nil {
		return nil, err
	}
	defer root.close()
	found := map[string]looked{}
	for _, path := range j.Paths {
		if found[path], err = lookAt(root, path); err != nil {
			return nil, err
		}
	}
	return found, nil
}

func lookAt(root place, path string) (looked, error) {
	fd, errno := openInRoot(root, path, oPath)
	if errno != 0 {
		return looked{}, nil // missing, or a link that leads nowhere
	}
	defer syscall.Close(fd)
	st := &syscall.Stat_t{}
	if err := syscall.Fstat(fd, st); err != nil {
		return looked{}, fmt.Errorf("look at %s: %w", path, err)
	}
	switch st.Mode & syscall.S_IFMT {
	case syscall.S_IFDIR:
		return looked{Kind: "folder"}, nil
	case syscall.S_IFREG:
	default:
		return looked{Kind: "other"}, nil
	}
	if st.Size > maxLookedBytes {
		return looked{Kind: "file"}, nil
	}
	file, errno := openInRoot(root, path, syscall.O_RDONLY|syscall.O_NONBLOCK)
	if errno != 0 {
		return looked{}, fmt.Errorf("read %s: %w", path, errno)
	}
	content := os.NewFile(uintptr(file), path)
	defer content.Close()
	data, err := io.ReadAll(io.LimitReader(content, maxLookedBytes))
	if err != nil {
		return looked{}, fmt.Errorf("read %s: %w", path, err)
	}
	return looked{"file", data}, nil
}

func openInRoot(root place, path string, flags uint64) (int, syscall.Errno) {
	return openFrom(root.fd, path, flags, noMagicLinks|inRoot)
}
