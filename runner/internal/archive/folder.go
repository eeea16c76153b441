package archive

import (
	"os"
	"syscall"

	"sandglass/runner/internal/sys"
)

// A folder is a directory that a walk passes through. file is nil while it is closed.
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

// closeAbove closes the folder that f is in if it can be reached from f again.
func (f *folder) closeAbove(above *folder) error {
	again := &folder{st: above.st}
	if err := f.openAbove(again); err != nil {
		return err
	}
	again.close()
	above.close()
	return nil
}

// openAbove opens the folder that f is in again.
//
// SECURITY: whoever moved f elsewhere meanwhile would lead the walk there; what lies above must be what lay there before.
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
