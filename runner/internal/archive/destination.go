package archive

import (
	"os"
	"syscall"

	"sandglass/runner/internal/files"
	"sandglass/runner/internal/sys"
)

// A destination is the directory that an archive is unpacked into. An atomic one has a temporary name until commit,
// and never replaces an existing file.
type destination struct {
	space     *files.Space
	top       *os.File
	path      string
	parent    *files.Pinned // of an atomic one: its parent directory and its names there
	temporary string
	name      string
}

func newDestination(space *files.Space, path string, isAtomic bool) (*destination, error) {
	d := &destination{space: space, path: path}
	err := space.Do(func() error {
		if isAtomic {
			return d.makeTemporary()
		}
		dir, err := space.MakeAll(path)
		if err != nil {
			return err
		}
		defer dir.Close()
		d.top, _, err = space.Reopen(dir, syscall.O_RDONLY|syscall.O_DIRECTORY, path)
		return err
	})
	if err != nil {
		d.undo()
		d.close()
		return nil, err
	}
	return d, nil
}

func (d *destination) makeTemporary() error {
	parent, name, err := d.space.PinOrMakeParent(d.path)
	if err != nil {
		return err
	}
	d.parent, d.name = parent, name
	if _, err := sys.StatAt(parent.FD, name); err != syscall.ENOENT {
		if err == nil {
			err = syscall.EEXIST
		}
		return d.space.Explain(d.path, err)
	}
	temporary, err := files.TemporaryName()
	if err != nil {
		return err
	}
	if err := syscall.Mkdirat(parent.FD, temporary, 0o755); err != nil {
		return d.space.Explain(d.path, err)
	}
	d.temporary = temporary
	fd, err := sys.OpenDirAt(parent.FD, temporary)
	if err != nil {
		return d.space.Explain(d.path, err)
	}
	d.top = os.NewFile(uintptr(fd), d.path)
	return nil
}

// commit renames an atomic destination to its name.
func (d *destination) commit() error {
	if d.temporary == "" {
		return nil
	}
	err := d.space.Do(func() error {
		return d.space.Explain(d.path, sys.RenameAt(d.parent.FD, d.temporary, d.parent.FD, d.name, sys.RenameNoreplace))
	})
	if err == nil {
		d.temporary = ""
	}
	return err
}

// undo removes an atomic destination with its content, and the directories that were created for it if they are
// empty.
func (d *destination) undo() {
	d.space.Do(func() error {
		if d.temporary != "" {
			files.Remove(d.parent.FD, d.temporary, true)
			d.temporary = ""
		}
		d.space.RemoveMade()
		return nil
	})
}

func (d *destination) close() {
	if d.top != nil {
		d.top.Close()
	}
	if d.parent != nil {
		d.parent.Close()
	}
}
