package archive

import (
	"os"
	"syscall"

	"sandglass/runner/internal/files"
	"sandglass/runner/internal/sys"
)

// An destination is the directory that an archive is unpacked into. An atomic one has a temporary name until it is
// kept; it takes no name that something else has.
type destination struct {
	space     *files.Space
	top       *os.File
	path      string
	parent    *files.Pinned // of an atomic one, with the names in it
	temporary string
	name      string
}

func newDestination(space *files.Space, path string, isAtomic bool) (*destination, error) {
	p := &destination{space: space, path: path}
	err := space.Do(func() error {
		if isAtomic {
			return p.makeTemporary()
		}
		dir, err := space.MakeAll(path)
		if err != nil {
			return err
		}
		defer dir.Close()
		p.top, _, err = space.Reopen(dir, syscall.O_RDONLY|syscall.O_DIRECTORY, path)
		return err
	})
	if err != nil {
		p.undo()
		p.close()
		return nil, err
	}
	return p, nil
}

func (p *destination) makeTemporary() error {
	parent, name, err := p.space.PinOrMakeParent(p.path)
	if err != nil {
		return err
	}
	p.parent, p.name = parent, name
	if _, err := sys.StatAt(parent.FD, name); err != syscall.ENOENT {
		if err == nil {
			err = syscall.EEXIST
		}
		return p.space.Explain(p.path, err)
	}
	temporary, err := files.TemporaryName()
	if err != nil {
		return err
	}
	if err := syscall.Mkdirat(parent.FD, temporary, 0o755); err != nil {
		return p.space.Explain(p.path, err)
	}
	p.temporary = temporary
	fd, err := sys.OpenDirAt(parent.FD, temporary)
	if err != nil {
		return p.space.Explain(p.path, err)
	}
	p.top = os.NewFile(uintptr(fd), p.path)
	return nil
}

// commit gives an atomic place its name.
func (p *destination) commit() error {
	if p.temporary == "" {
		return nil
	}
	err := p.space.Do(func() error {
		return p.space.Explain(p.path, sys.RenameAt(p.parent.FD, p.temporary, p.parent.FD, p.name, sys.RenameNoreplace))
	})
	if err == nil {
		p.temporary = ""
	}
	return err
}

// undo removes an atomic place with what is in it, and the directories that were made for it as far as they are empty.
func (p *destination) undo() {
	p.space.Do(func() error {
		if p.temporary != "" {
			files.Remove(p.parent.FD, p.temporary, true)
			p.temporary = ""
		}
		p.space.RemoveMade()
		return nil
	})
}

func (p *destination) close() {
	if p.top != nil {
		p.top.Close()
	}
	if p.parent != nil {
		p.parent.Close()
	}
}
