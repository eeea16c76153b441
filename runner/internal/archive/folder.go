package archive

import (
	"os"
	"syscall"

	"sandglass/runner/internal/sys"
)

// A folder is a directory of a walk. file is nil while it is closed.
type folder struct {
	file *os.File
	st   *syscall.Stat_t
}

func (f *folder) fd() int { return int(f.file.Fd()) }

func (f *folder) close() {
	if f.file != nil {
		f.file.Close()
		f.file = nil
	}
}

// enter opens a directory in f, which may be the root of another mount. A link is ENOTDIR.
func (f *folder) enter(name string) (*folder, error) {
	return openFolder(f.fd(), name)
}

func openFolder(dir int, name string) (*folder, error) {
	fd, err := sys.OpenAt(dir, name, syscall.O_RDONLY|syscall.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	st := &syscall.Stat_t{}
	if err := syscall.Fstat(fd, st); err != nil {
		syscall.Close(fd)
		return nil, err
	}
	return &folder{os.NewFile(uintptr(fd), name), st}, nil
}

// closeAbove closes the parent of f if it can be opened again from f.
func (f *folder) closeAbove(above *folder) error {
	again := &folder{st: above.st}
	if err := f.openAbove(again); err != nil {
		return err
	}
	again.close()
	above.close()
	return nil
}

// openAbove opens the parent of f again.
//
// SECURITY: if f was moved meanwhile, its parent is another directory and the walk would continue there. So the
// parent must be the same as before.
func (f *folder) openAbove(above *folder) error {
	if f.file == nil {
		return errMoved
	}
	found, err := openFolder(f.fd(), "..")
	if err != nil {
		return errMoved
	}
	if found.st.Dev != above.st.Dev || found.st.Ino != above.st.Ino {
		found.close()
		return errMoved
	}
	above.file = found.file
	return nil
}
