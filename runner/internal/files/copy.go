package files

import (
	"io"
	"os"
	"syscall"

	"sandglass/runner/internal/sys"
)

// moveAcross moves to another filesystem: copy, rename into place, remove. It rejects devices, fifos and sockets.
func moveAcross(fromDir int, from string, toDir int, to string, flags uintptr) error {
	if flags&sys.RenameNoreplace != 0 {
		if _, err := sys.StatAt(toDir, to); err == nil {
			return syscall.EEXIST
		}
	}
	temporary, err := TemporaryName()
	if err != nil {
		return err
	}
	err = copyTree(fromDir, from, toDir, temporary, 1)
	if err == nil {
		err = sys.RenameAt(toDir, temporary, toDir, to, flags)
	}
	if err != nil {
		Remove(toDir, temporary, true)
		return err
	}
	return Remove(fromDir, from, true)
}

func copyTree(fromDir int, from string, toDir int, to string, depth int) error {
	if depth > maxDepth {
		return syscall.ENAMETOOLONG
	}
	st, err := sys.StatAt(fromDir, from)
	if err != nil {
		return err
	}
	switch st.Mode & syscall.S_IFMT {
	case syscall.S_IFLNK:
		target, err := sys.ReadlinkAt(fromDir, from)
		if err != nil {
			return err
		}
		return sys.SymlinkAt(target, toDir, to)
	case syscall.S_IFREG:
		return copyRegular(fromDir, from, toDir, to)
	case syscall.S_IFDIR:
		return copyDir(fromDir, from, toDir, to, st, depth)
	}
	return notAFile(from)
}

func copyRegular(fromDir int, from string, toDir int, to string) error {
	source, st, err := OpenRegularAt(fromDir, from)
	if err != nil {
		return err
	}
	defer source.Close()
	fd, err := sys.OpenAt(toDir, to, syscall.O_WRONLY|syscall.O_CREAT|syscall.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	copied := os.NewFile(uintptr(fd), to)
	defer copied.Close()
	if _, err := io.Copy(copied, source); err != nil {
		return err
	}
	if err := syscall.Fchmod(fd, st.Mode&0o777); err != nil {
		return err
	}
	return sys.SetTimes(fd, st.Mtim.Sec, st.Mtim.Nsec)
}

func copyDir(fromDir int, from string, toDir int, to string, st *syscall.Stat_t, depth int) error {
	sourceFd, err := sys.OpenDirAt(fromDir, from)
	if err != nil {
		return err
	}
	source := os.NewFile(uintptr(sourceFd), from)
	defer source.Close()
	if err := syscall.Mkdirat(toDir, to, 0o700); err != nil {
		return err
	}
	copied, err := sys.OpenDirAt(toDir, to)
	if err != nil {
		return err
	}
	defer syscall.Close(copied)
	for {
		names, err := source.Readdirnames(1024)
		for _, name := range names {
			if err := copyTree(sourceFd, name, copied, name, depth+1); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return syscall.Fchmod(copied, st.Mode&0o777)
		}
		if err != nil {
			return err
		}
	}
}

// OpenRegularAt opens a regular file in dir for reading. It never blocks: a fifo is opened without blocking and then
// rejected.
func OpenRegularAt(dir int, name string) (*os.File, *syscall.Stat_t, error) {
	fd, err := sys.OpenAt(dir, name, syscall.O_RDONLY, 0)
	if err != nil {
		return nil, nil, err
	}
	st := &syscall.Stat_t{}
	if err := syscall.Fstat(fd, st); err != nil {
		syscall.Close(fd)
		return nil, nil, err
	}
	if st.Mode&syscall.S_IFMT != syscall.S_IFREG {
		syscall.Close(fd)
		return nil, nil, notAFile(name)
	}
	return os.NewFile(uintptr(fd), name), st, nil
}
