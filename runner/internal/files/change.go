package files

import (
	"errors"
	"os"
	"syscall"

	"sandglass/runner/internal/sys"
	"sandglass/runner/internal/wire"
)

func (r *requests) makeDir(q *wire.Request) (wire.Fields, []byte, error) {
	args := struct {
		Target
		Parents bool   `json:"parents"`
		Mode    string `json:"mode"`
	}{Mode: "755"}
	if err := q.Decode(&args); err != nil {
		return nil, nil, err
	}
	mode, err := parseMode(args.Mode)
	if err != nil {
		return nil, nil, err
	}
	space, path, err := args.Resolve(r.cfg)
	if err != nil {
		return nil, nil, err
	}
	err = space.Do(func() error { return space.mkdir(path, args.Parents, mode) })
	return wire.Fields{"ok": true}, nil, err
}

// mkdir creates a directory. With parents it also creates missing parents and accepts an existing directory.
func (s *Space) mkdir(path string, parents bool, mode uint32) error {
	pinDir := s.pinParent
	if parents {
		if there, err := s.Pin(path, syscall.O_DIRECTORY); err == nil {
			there.Close()
			return nil
		}
		pinDir = s.PinOrMakeParent
	}
	dir, name, err := pinDir(path)
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := syscall.Mkdirat(dir.FD, name, mode|0o700); err != nil {
		return s.Explain(path, err)
	}
	return s.Explain(path, SetDirMode(dir.FD, name, mode))
}

// SetDirMode sets the mode of a directory, regardless of the umask.
func SetDirMode(dir int, name string, mode uint32) error {
	fd, err := sys.OpenDirAt(dir, name)
	if err != nil {
		return err
	}
	defer syscall.Close(fd)
	return syscall.Fchmod(fd, mode)
}

func (r *requests) move(q *wire.Request) (wire.Fields, []byte, error) {
	args := struct {
		From       string `json:"from"`
		FromBase64 string `json:"from_base64"`
		To         string `json:"to"`
		ToBase64   string `json:"to_base64"`
		User       string `json:"user"`
		Overwrite  bool   `json:"overwrite"`
	}{}
	if err := q.Decode(&args); err != nil {
		return nil, nil, err
	}
	from, err := requestPath(args.From, args.FromBase64)
	if err != nil {
		return nil, nil, err
	}
	to, err := requestPath(args.To, args.ToBase64)
	if err != nil {
		return nil, nil, err
	}
	space, err := newSpace(r.cfg, args.User)
	if err != nil {
		return nil, nil, err
	}
	err = space.Do(func() error { return space.move(from, to, args.Overwrite) })
	return wire.Fields{"ok": true}, nil, err
}

func (s *Space) move(from, to string, overwrite bool) error {
	fromDir, fromName, err := s.pinParent(from)
	if err != nil {
		return err
	}
	defer fromDir.Close()
	toDir, toName, err := s.pinParent(to)
	if err != nil {
		return err
	}
	defer toDir.Close()
	flags := uintptr(sys.RenameNoreplace)
	if overwrite {
		flags = 0
	}
	err = sys.RenameAt(fromDir.FD, fromName, toDir.FD, toName, flags)
	if err == syscall.EXDEV {
		// On another filesystem, the copy is completed under a temporary name before it is renamed.
		err = moveAcross(fromDir.FD, fromName, toDir.FD, toName, flags)
	}
	switch err {
	case syscall.EINVAL:
		return wire.Invalid("a directory cannot be moved into itself")
	case syscall.EEXIST, syscall.ENOTEMPTY, syscall.EISDIR, syscall.ENOTDIR, syscall.ENOSPC:
		return s.Explain(to, err)
	}
	return s.Explain(from, err)
}

func (r *requests) remove(q *wire.Request) (wire.Fields, []byte, error) {
	args := struct {
		Target
		Recursive bool `json:"recursive"`
	}{}
	if err := q.Decode(&args); err != nil {
		return nil, nil, err
	}
	space, path, err := args.Resolve(r.cfg)
	if err != nil {
		return nil, nil, err
	}
	err = space.Do(func() error {
		dir, name, err := space.pinParent(path)
		if err != nil {
			return err
		}
		defer dir.Close()
		return space.Explain(path, Remove(dir.FD, name, args.Recursive))
	})
	return wire.Fields{"ok": true}, nil, err
}

// Remove removes one name. With recursive it removes everything below it, too.
func Remove(dir int, name string, recursive bool) error {
	err := sys.UnlinkAt(dir, name, 0)
	if err != syscall.EISDIR {
		return err
	}
	err = sys.UnlinkAt(dir, name, sys.RemoveDir)
	if err != syscall.ENOTEMPTY && err != syscall.EEXIST || !recursive {
		return err
	}
	fd, err := sys.OpenDirAt(dir, name)
	if err != nil {
		return err
	}
	top := os.NewFile(uintptr(fd), name)
	defer top.Close()
	if err := removeBelow(top, top, 1); err != nil {
		return err
	}
	return sys.UnlinkAt(dir, name, sys.RemoveDir)
}

// removeDepth is the number of levels that are open at once.
const removeDepth = 64

var errRefilled = errors.New("directory is being filled while it is removed")

// removeBelow removes everything in dir, which is top or below it. It moves a directory that is too deep up into top,
// where a later iteration of its caller finds it.
//
// SECURITY: each level is opened through the descriptor of the one above, never through a link and never on another
// mount.
func removeBelow(dir, top *os.File, depth int) error {
	for turns := 0; ; turns++ {
		if _, err := dir.Seek(0, 0); err != nil {
			return err
		}
		names, _, err := sortedNames(dir, 4096)
		if err != nil || len(names) == 0 {
			return err
		}
		if turns > 1<<20 {
			return errRefilled
		}
		for _, name := range names {
			if err := removeOne(dir, top, name, depth); err != nil && err != syscall.ENOENT {
				return err
			}
		}
	}
}

func removeOne(dir, top *os.File, name string, depth int) error {
	err := sys.UnlinkAt(int(dir.Fd()), name, 0)
	if err != syscall.EISDIR {
		return err
	}
	err = sys.UnlinkAt(int(dir.Fd()), name, sys.RemoveDir)
	if err != syscall.ENOTEMPTY && err != syscall.EEXIST {
		return err
	}
	if depth >= removeDepth {
		raised, err := TemporaryName()
		if err != nil {
			return err
		}
		return sys.RenameAt(int(dir.Fd()), name, int(top.Fd()), raised, sys.RenameNoreplace)
	}
	fd, err := sys.OpenDirAt(int(dir.Fd()), name)
	if err != nil {
		return err
	}
	sub := os.NewFile(uintptr(fd), name)
	defer sub.Close()
	if err := removeBelow(sub, top, depth+1); err != nil {
		return err
	}
	return sys.UnlinkAt(int(dir.Fd()), name, sys.RemoveDir)
}
