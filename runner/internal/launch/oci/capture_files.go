package oci

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"sort"
	"strings"

	"sandglass/runner/internal/launch/layertar"
	"sandglass/runner/internal/launch/mount"
)

// A capturedFiles copies files of one image into a layer of another one.
type capturedFiles struct {
	Stack stack  `json:"stack"`
	Mount string `json:"mount"` // an empty folder of the daemon's
	// Sources are absolute paths, which may have the wildcards of path.Match.
	Sources []string `json:"sources"`
	// Into is where they go, without links. A folder is written as Into; a file is written into Into if IntoFolder, or else as Into.
	Into       string `json:"into"`
	IntoFolder bool   `json:"into_folder"`
	// Parents are folders to write first, outermost first.
	Parents []parentFolder `json:"parents"`
	Owner   *fileOwner     `json:"owner"`
	Mode    *uint32        `json:"mode"`
}

const newFolderMode = 0o755

type parentFolder struct {
	Path string `json:"path"`
	Mode uint32 `json:"mode"`
	UID  int    `json:"uid"`
	GID  int    `json:"gid"`
}

type fileOwner struct {
	UID int `json:"uid"`
	GID int `json:"gid"`
}

func (f *capturedFiles) change(s *layertar.Settings) {
	s.Mode = f.Mode
	if owner := f.Owner; owner != nil {
		s.Owner = func(uint32, uint32) (int, int) { return owner.UID, owner.GID }
	}
}

// write mounts the image and makes it the root of this thread: links of the image lead to files of the image.
func (f *capturedFiles) write(w *layertar.Writer) error {
	target, err := mount.Open(f.Mount)
	if err != nil {
		return err
	}
	err = f.Stack.mount(target, nil, "", "")
	target.Close()
	if err != nil {
		return err
	}
	if err := enterRoot(f.Mount, ""); err != nil {
		return err
	}
	written := map[string]bool{"": true}
	for _, p := range f.Parents {
		if err := w.Folder(p.Path, p.Mode, p.UID, p.GID); err != nil {
			return err
		}
		written[p.Path] = true
	}
	for _, source := range f.Sources {
		found, err := matches(source)
		if err != nil {
			return err
		}
		for _, file := range found {
			if err := f.copy(w, file, written); err != nil {
				return err
			}
		}
	}
	return nil
}

// copy writes one source. A link that is named as a source is followed; links below a folder are copied as links.
func (f *capturedFiles) copy(w *layertar.Writer, source string, written map[string]bool) error {
	real, err := filepath.EvalSymlinks(source)
	if err != nil {
		return layertar.Invalid(source, "it leads to nothing in the image")
	}
	info, err := os.Lstat(real)
	if err != nil {
		return fmt.Errorf("stat %s: %w", source, err)
	}
	if info.IsDir() {
		if written[f.Into] {
			return w.Tree(real, f.Into)
		}
		written[f.Into] = true
		return w.Entry(real, f.Into, 0)
	}
	if !f.IntoFolder {
		return w.Entry(real, f.Into, 0)
	}
	if !written[f.Into] {
		written[f.Into] = true
		uid, gid := 0, 0
		if f.Owner != nil {
			uid, gid = f.Owner.UID, f.Owner.GID
		}
		if err := w.Folder(f.Into, newFolderMode, uid, gid); err != nil {
			return err
		}
	}
	return w.Entry(real, path.Join(f.Into, path.Base(source)), 0)
}

// matches returns the files that a source names, in their order.
func matches(source string) ([]string, error) {
	source = path.Clean("/" + source)
	if !strings.ContainsAny(source, `*?[`) {
		if _, err := os.Lstat(source); err != nil {
			return nil, layertar.Invalid(source, "the image has no such file")
		}
		return []string{source}, nil
	}
	found, err := filepath.Glob(source)
	if err != nil || len(found) == 0 {
		return nil, layertar.Invalid(source, "the image has no such file")
	}
	sort.Strings(found)
	return found, nil
}
