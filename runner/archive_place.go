package main

import (
	"os"
	"syscall"
)

// An archivePlace is the directory that an archive is unpacked into. An atomic one has a temporary name until it is
// kept; it takes no name that something else has.
type archivePlace struct {
	space     *fileSpace
	top       *os.File
	path      string
	parent    *pinned // of an atomic one, with the names in it
	temporary string
	name      string
}

func newArchivePlace(space *fileSpace, path string, isAtomic bool) (*archivePlace, error) {
	p := &archivePlace{space: space, path: path}
	err := space.do(func() error {
		if isAtomic {
			return p.makeTemporary()
		}
		dir, err := space.makeAll(path)
		if err != nil {
			return err
		}
		defer dir.close()
		p.top, _, err = space.reopen(dir, syscall.O_RDONLY|syscall.O_DIRECTORY, path)
		return err
	})
	if err != nil {
		p.undo()
		p.close()
		return nil, err
	}
	return p, nil
}

func (p *archivePlace) makeTemporary() error {
	parent, name, err := p.space.pinMade(p.path)
	if err != nil {
		return err
	}
	p.parent, p.name = parent, name
	if _, err := statAt(parent.fd, name); err != syscall.ENOENT {
		if err == nil {
			err = syscall.EEXIST
		}
		return p.space.explain(p.path, err)
	}
	temporary, err := temporaryName()
	if err != nil {
		return err
	}
	if err := syscall.Mkdirat(parent.fd, temporary, 0o755); err != nil {
		return p.space.explain(p.path, err)
	}
	p.temporary = temporary
	fd, err := openDirAt(parent.fd, temporary)
	if err != nil {
		return p.space.explain(p.path, err)
	}
	p.top = os.NewFile(uintptr(fd), p.path)
	return nil
}

// keep gives an atomic place its name.
func (p *archivePlace) keep() error {
	if p.temporary == "" {
		return nil
	}
	err := p.space.do(func() error {
		return p.space.explain(p.path, renameAt(p.parent.fd, p.temporary, p.parent.fd, p.name, renameNoreplace))
	})
	if err == nil {
		p.temporary = ""
	}
	return err
}

// undo removes an atomic place with what is in it, and the directories that were made for it as far as they are empty.
func (p *archivePlace) undo() {
	p.space.do(func() error {
		if p.temporary != "" {
			remove(p.parent.fd, p.temporary, true)
			p.temporary = ""
		}
		p.space.unmake()
		return nil
	})
}

func (p *archivePlace) close() {
	if p.top != nil {
		p.top.Close()
	}
	if p.parent != nil {
		p.parent.close()
	}
}
