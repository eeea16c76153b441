package main

import (
	"errors"
	"os"
	"syscall"
)

func makeDir(run *runner, q *request) (fields, []byte, error) {
	args := struct {
		target
		Parents bool   `json:"parents"`
		Mode    string `json:"mode"`
	}{Mode: "755"}
	if err := q.decode(&args); err != nil {
		return nil, nil, err
	}
	mode, err := parseMode(args.Mode)
	if err != nil {
		return nil, nil, err
	}
	space, path, err := args.resolve(run)
	if err != nil {
		return nil, nil, err
	}
	err = space.do(func() error { return space.mkdir(path, args.Parents, mode) })
	return fields{"ok": true}, nil, err
}

// mkdir makes a directory. With parents one that is there is fine, as are missing ones above.
func (s *fileSpace) mkdir(path string, parents bool, mode uint32) error {
	pinDir := s.pinParent
	if parents {
		if there, err := s.pin(path, syscall.O_DIRECTORY); err == nil {
			there.close()
			return nil
		}
		pinDir = s.pinMade
	}
	dir, name, err := pinDir(path)
	if err != nil {
		return err
	}
	defer dir.close()
	if err := syscall.Mkdirat(dir.fd, name, mode|0o700); err != nil {
		return s.explain(path, err)
	}
	return s.explain(path, setDirMode(dir.fd, name, mode))
}

// setDirMode sets what the process's umask may have taken away.
func setDirMode(dir int, name string, mode uint32) error {
	fd, err := openDirAt(dir, name)
	if err != nil {
		return err
	}
	defer syscall.Close(fd)
	return syscall.Fchmod(fd, mode)
}

func moveFile(run *runner, q *request) (fields, []byte, error) {
	args := struct {
		From       string `json:"from"`
		FromBase64 string `json:"from_base64"`
		To         string `json:"to"`
		ToBase64   string `json:"to_base64"`
		User       string `json:"user"`
		Overwrite  bool   `json:"overwrite"`
	}{}
	if err := q.decode(&args); err != nil {
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
	space, err := newFileSpace(run.cfg, args.User)
	if err != nil {
		return nil, nil, err
	}
	err = space.do(func() error { return space.move(from, to, args.Overwrite) })
	return fields{"ok": true}, nil, err
}

func (s *fileSpace) move(from, to string, overwrite bool) error {
	fromDir, fromName, err := s.pinParent(from)
	if err != nil {
		return err
	}
	defer fromDir.close()
	toDir, toName, err := s.pinParent(to)
	if err != nil {
		return err
	}
	defer toDir.close()
	flags := uintptr(renameNoreplace)
	if overwrite {
		flags = 0
	}
	err = renameAt(fromDir.fd, fromName, toDir.fd, toName, flags)
	if err == syscall.EXDEV {
		// Another filesystem; the copy is complete under a temporary name before it takes its own.
		err = moveAcross(fromDir.fd, fromName, toDir.fd, toName, flags)
	}
	switch err {
	case syscall.EINVAL:
		return invalid("a directory cannot be moved into itself")
	case syscall.EEXIST, syscall.ENOTEMPTY, syscall.EISDIR, syscall.ENOTDIR, syscall.ENOSPC:
		return s.explain(to, err)
	}
	return s.explain(from, err)
}

func removeFile(run *runner, q *request) (fields, []byte, error) {
	args := struct {
		target
		Recursive bool `json:"recursive"`
	}{}
	if err := q.decode(&args); err != nil {
		return nil, nil, err
	}
	space, path, err := args.resolve(run)
	if err != nil {
		return nil, nil, err
	}
	err = space.do(func() error {
		dir, name, err := space.pinParent(path)
		if err != nil {
			return err
		}
		defer dir.close()
		return space.explain(path, remove(dir.fd, name, args.Recursive))
	})
	return fields{"ok": true}, nil, err
}

// remove takes one name away, and with recursive everything below it.
func remove(dir int, name string, recursive bool) error {
	err := unlinkAt(dir, name, 0)
	if err != syscall.EISDIR {
		return err
	}
	err = unlinkAt(dir, name, atRemovedir)
	if err != syscall.ENOTEMPTY && err != syscall.EEXIST || !recursive {
		return err
	}
	fd, err := openDirAt(dir, name)
	if err != nil {
		return err
	}
	top := os.NewFile(uintptr(fd), name)
	defer top.Close()
	if err := empty(top, top, 1); err != nil {
		return err
	}
	return unlinkAt(dir, name, atRemovedir)
}

// More levels than this are not held open at once.
const removeDepth = 64

var errRefilled = errors.New("directory is being filled while it is removed")

// empty removes everything in dir, which is top or below it. A directory that lies too deep is
// moved up into top, where a later turn of the caller's loop finds it.
//
// SECURITY: each level is entered through the descriptor of the one above, never
// through a link and never onto another mount.
func empty(dir, top *os.File, depth int) error {
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
			if err := emptyOne(dir, top, name, depth); err != nil && err != syscall.ENOENT {
				return err
			}
		}
	}
}

func emptyOne(dir, top *os.File, name string, depth int) error {
	err := unlinkAt(int(dir.Fd()), name, 0)
	if err != syscall.EISDIR {
		return err
	}
	err = unlinkAt(int(dir.Fd()), name, atRemovedir)
	if err != syscall.ENOTEMPTY && err != syscall.EEXIST {
		return err
	}
	if depth >= removeDepth {
		raised, err := temporaryName()
		if err != nil {
			return err
		}
		return renameAt(int(dir.Fd()), name, int(top.Fd()), raised, renameNoreplace)
	}
	fd, err := openDirAt(int(dir.Fd()), name)
	if err != nil {
		return err
	}
	sub := os.NewFile(uintptr(fd), name)
	defer sub.Close()
	if err := empty(sub, top, depth+1); err != nil {
		return err
	}
	return unlinkAt(int(dir.Fd()), name, atRemovedir)
}
