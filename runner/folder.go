package main

import (
	"os"
	"syscall"
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
	fd, err := openAt(dir, name, syscall.O_RDONLY|syscall.O_DIRECTORY, 0)
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

// The filesystems that a kernel makes up. Their files have no length and no end, and reading or writing them does things.
var kernelFilesystems = map[int64]bool{
	0x9fa0:     true, // proc
	0x62656572: true, // sysfs
	0x27e0eb:   true, // cgroup
	0x63677270: true, // cgroup2
	0x64626720: true, // debugfs
	0x74726163: true, // tracefs
	0x73636673: true, // securityfs
	0x62656570: true, // configfs
	0xcafe4a11: true, // bpf
}

// isKernels says of a descriptor whether it is in one of them; where the kernel does not tell, it is taken to be.
func isKernels(fd int) bool {
	disk := &syscall.Statfs_t{}
	return syscall.Fstatfs(fd, disk) != nil || kernelFilesystems[int64(disk.Type)]
}
