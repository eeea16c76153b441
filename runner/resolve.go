package main

import (
	"encoding/base64"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

const maxPathBytes = 4096

// A fileSpace is what one file request may reach: the configured roots, with
// the rights of one user.
type fileSpace struct {
	workdir string
	roots   []string
	user    *account
	isRoots bool     // root's: all of the sandbox
	made    []string // directories that makeAll made, those above first
}

func newFileSpace(cfg *config, user string) (*fileSpace, error) {
	who, err := cfg.account(user)
	if err != nil {
		return nil, err
	}
	space := &fileSpace{workdir: cfg.Workdir, roots: cfg.FileRoots, user: who}
	if user == "root" {
		space.roots, space.isRoots = []string{"/"}, true
	}
	return space, nil
}

// do runs f with the rights of the user. Every method below belongs inside one.
func (s *fileSpace) do(f func() error) error { return as(s.user, f) }

// A pinned is a descriptor of something whose place was checked after every link
// was followed. What happens to the names on the way does not move it.
type pinned struct {
	fd   int
	path string // where it was at the time
}

func (p *pinned) close() { syscall.Close(p.fd) }

// pin resolves path and holds what it leads to, without opening it: devices and
// fifos do not notice. flags may add O_NOFOLLOW, which pins a link itself, and O_DIRECTORY.
//
// SECURITY: the check is made on the descriptor, not on the path, so a directory
// that is swapped for a link meanwhile leads nowhere.
func (s *fileSpace) pin(path string, flags int) (*pinned, error) {
	root, err := rootDir()
	if err != nil {
		return nil, err
	}
	fd, err := openat2(root, s.absolute(path), openPath|flags, resolveInRoot|resolveNoMagiclinks)
	if err != nil {
		return nil, s.explain(path, err)
	}
	real, err := descriptorPath(fd)
	if err != nil {
		syscall.Close(fd)
		return nil, err
	}
	// SECURITY: the kernel's own files are reached by exec alone. Among them is the memory of the runner.
	if !s.contains(real) || s.isRoots && isKernels(fd) {
		syscall.Close(fd)
		return nil, s.explain(path, syscall.EXDEV)
	}
	return &pinned{fd, real}, nil
}

// pinParent holds the directory that path's last name is in, and gives that
// name, which no later call follows.
func (s *fileSpace) pinParent(path string) (*pinned, string, error) {
	parent, name, err := s.split(path)
	if err != nil {
		return nil, "", err
	}
	dir, err := s.pin(parent, syscall.O_DIRECTORY)
	if err != nil {
		return nil, "", s.explain(path, err)
	}
	return dir, name, nil
}

// pinMade is pinParent after making what is missing of the directories above.
func (s *fileSpace) pinMade(path string) (*pinned, string, error) {
	parent, name, err := s.split(path)
	if err != nil {
		return nil, "", err
	}
	dir, err := s.makeAll(parent)
	return dir, name, err
}

// makeAll pins the directory path, made with what is missing above it.
func (s *fileSpace) makeAll(path string) (*pinned, error) {
	dir, err := s.pin(path, syscall.O_DIRECTORY)
	if codeOrNone(err) != codeFileNotFound {
		return dir, err
	}
	above, name, err := s.split(path)
	if err != nil {
		return nil, err
	}
	parent, err := s.makeAll(above)
	if err != nil {
		return nil, err
	}
	defer parent.close()
	if err := syscall.Mkdirat(parent.fd, name, 0o755); err == nil {
		s.made = append(s.made, path)
	} else if err != syscall.EEXIST {
		return nil, s.explain(path, err)
	}
	return s.pin(path, syscall.O_DIRECTORY)
}

// unmake removes the directories that makeAll made, as far as they are empty.
func (s *fileSpace) unmake() {
	for i := len(s.made) - 1; i >= 0; i-- {
		if dir, name, err := s.pinParent(s.made[i]); err == nil {
			unlinkAt(dir.fd, name, atRemovedir)
			dir.close()
		}
	}
}

// split takes the last name off a path.
func (s *fileSpace) split(path string) (parent, name string, err error) {
	trimmed := strings.TrimRight(s.absolute(path), "/")
	cut := strings.LastIndexByte(trimmed, '/')
	if cut < 0 {
		return "", "", s.explain(path, syscall.EXDEV)
	}
	name = trimmed[cut+1:]
	if name == "." || name == ".." {
		return "", "", invalid("path must end in a name: %s", path)
	}
	return trimmed[:cut+1], name, nil
}

func (s *fileSpace) absolute(path string) string {
	if strings.HasPrefix(path, "/") {
		return path
	}
	return s.workdir + "/" + path
}

func (s *fileSpace) contains(real string) bool {
	for _, root := range s.roots {
		if real == root || strings.HasPrefix(real, strings.TrimRight(root, "/")+"/") {
			return true
		}
	}
	return false
}

// explain gives the failure of a call on path its code. Outside the roots
// nothing is told about what is there.
func (s *fileSpace) explain(path string, err error) error {
	explained := s.nameError(path, err)
	var errno syscall.Errno
	var known *runnerError
	if !errors.As(err, &errno) || !errors.As(explained, &known) {
		return explained
	}
	switch {
	case errno == syscall.EROFS:
		known.detail["read_only"] = true
	case s.isRoots && (known.code == codePermissionDenied || known.code == codePathOutside):
		known.detail["user"] = "root"
	case known.code == codeDiskFull && isInMemory(filepath.Clean(s.absolute(path))):
		known.detail["in_memory"] = true
	}
	return explained
}

// isInMemory: /tmp is a filesystem of its own on most backends, whose size is a share of the session's memory.
func isInMemory(path string) bool {
	const tmpfsMagic = 0x01021994
	disk := &syscall.Statfs_t{}
	return strings.HasPrefix(path+"/", "/tmp/") && syscall.Statfs("/tmp", disk) == nil && int64(disk.Type) == tmpfsMagic
}

func (s *fileSpace) nameError(path string, err error) error {
	var errno syscall.Errno
	if codeOrNone(err) != "" || !errors.As(err, &errno) {
		return err
	}
	switch errno {
	case syscall.ENOENT, syscall.ENOTDIR, syscall.EACCES:
		if !s.contains(filepath.Clean(s.absolute(path))) {
			return pathError(path, syscall.EXDEV)
		}
	case syscall.ENAMETOOLONG:
		return invalid("path or name is too long")
	case syscall.EBUSY, syscall.ETXTBSY:
		return pathError(path, syscall.EACCES)
	case syscall.ENXIO, syscall.ENODEV:
		return notAFile(path)
	}
	return pathError(path, errno)
}

// codeOrNone is the code of an error that has one already.
func codeOrNone(err error) string {
	var known *runnerError
	if errors.As(err, &known) {
		return known.code
	}
	return ""
}

func notAFile(path string) error {
	return &runnerError{codeNotAFile, "not a regular file: " + path, fields{"path": path}}
}

// reopen opens what is pinned, with the user's rights. It never waits: only regular
// files and directories are opened.
func (s *fileSpace) reopen(p *pinned, flags int, path string) (*os.File, *syscall.Stat_t, error) {
	st := &syscall.Stat_t{}
	if err := syscall.Fstat(p.fd, st); err != nil {
		return nil, nil, s.explain(path, err)
	}
	isDir := st.Mode&syscall.S_IFMT == syscall.S_IFDIR
	switch {
	case isDir && flags&syscall.O_DIRECTORY == 0:
		return nil, nil, s.explain(path, syscall.EISDIR)
	case !isDir && flags&syscall.O_DIRECTORY != 0:
		return nil, nil, s.explain(path, syscall.ENOTDIR)
	case !isDir && st.Mode&syscall.S_IFMT != syscall.S_IFREG:
		return nil, nil, notAFile(path)
	}
	descriptors, err := descriptorDir()
	if err != nil {
		return nil, nil, err
	}
	fd, err := syscall.Openat(descriptors, strconv.Itoa(p.fd), flags|syscall.O_CLOEXEC|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, nil, s.explain(path, err)
	}
	return os.NewFile(uintptr(fd), p.path), st, nil
}

// requestPath takes a path out of a request, where base64 carries names that are not UTF-8.
func requestPath(text, encoded string) (string, error) {
	path := text
	if encoded != "" {
		raw, err := base64.StdEncoding.DecodeString(encoded)
		if err != nil {
			return "", invalid("path_base64 is not base64")
		}
		path = string(raw)
	}
	switch {
	case path == "":
		return "", invalid("path must not be empty")
	case strings.IndexByte(path, 0) >= 0:
		return "", invalid("path must not contain NUL")
	case len(path) > maxPathBytes:
		return "", invalid("path must be at most %d bytes", maxPathBytes)
	}
	return path, nil
}

func descriptorPath(fd int) (string, error) {
	descriptors, err := descriptorDir()
	if err != nil {
		return "", err
	}
	return readlinkAt(descriptors, strconv.Itoa(fd))
}

// The sandbox's root and the runner's descriptors, held open so that nothing
// mounted over either of them later changes what they are.
var (
	rootDir       = openOnce("/")
	descriptorDir = openOnce("/proc/self/fd")
)

func openOnce(path string) func() (int, error) {
	var once sync.Once
	var fd int
	var err error
	return func() (int, error) {
		once.Do(func() { fd, err = syscall.Open(path, openPath|syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0) })
		return fd, err
	}
}
