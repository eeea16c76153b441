// Package files answers the requests about files: read, write, list, search, watch, move and remove. A Space checks
// every access.
package files

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"sandglass/runner/internal/account"
	"sandglass/runner/internal/config"
	"sandglass/runner/internal/sys"
	"sandglass/runner/internal/wire"
)

// A Space is what one file request may access: the configured roots, with the rights of one user.
type Space struct {
	Workdir    string
	roots      []string
	user       *account.User
	reachesAll bool     // the user is root, who may access the whole sandbox
	made       []string // directories that MakeAll created, parents first
}

func newSpace(cfg *config.Config, user string) (*Space, error) {
	who, err := cfg.Account(user)
	if err != nil {
		return nil, err
	}
	space := &Space{Workdir: cfg.Workdir, roots: cfg.FileRoots, user: who}
	if user == "root" {
		space.roots, space.reachesAll = []string{"/"}, true
	}
	return space, nil
}

// Do runs f with the rights of the user. All methods below must be called inside of it.
func (s *Space) Do(f func() error) error { return account.As(s.user, f) }

// A Pinned is an O_PATH descriptor of a file whose path was checked after all links were followed. Later renames do
// not change what it refers to.
type Pinned struct {
	FD   int
	path string // path at the time of the check
}

func (p *Pinned) Close() { syscall.Close(p.FD) }

// Pin resolves path to a descriptor without opening the file, which has no effect on devices and fifos. flags may add
// O_NOFOLLOW, which pins a link itself, and O_DIRECTORY.
//
// SECURITY: the check is made on the descriptor and not on the path, so a directory that is swapped for a link
// meanwhile leads nowhere.
func (s *Space) Pin(path string, flags int) (*Pinned, error) {
	root, err := rootDir()
	if err != nil {
		return nil, err
	}
	fd, err := sys.Openat2(root, s.absolute(path), sys.OpenPath|flags, sys.ResolveInRoot|sys.ResolveNoMagiclinks)
	if err != nil {
		return nil, s.Explain(path, err)
	}
	real, err := DescriptorPath(fd)
	if err != nil {
		syscall.Close(fd)
		return nil, err
	}
	// SECURITY: files of the kernel, among them the memory of the runner, can be accessed with exec only.
	if !s.contains(real) || s.reachesAll && IsKernelFilesystem(fd) {
		syscall.Close(fd)
		return nil, s.Explain(path, syscall.EXDEV)
	}
	return &Pinned{fd, real}, nil
}

// pinParent pins the directory of path and returns its last name, which later calls do not follow.
func (s *Space) pinParent(path string) (*Pinned, string, error) {
	parent, name, err := s.split(path)
	if err != nil {
		return nil, "", err
	}
	dir, err := s.Pin(parent, syscall.O_DIRECTORY)
	if err != nil {
		return nil, "", s.Explain(path, err)
	}
	return dir, name, nil
}

// PinOrMakeParent is pinParent, but creates missing directories.
func (s *Space) PinOrMakeParent(path string) (*Pinned, string, error) {
	parent, name, err := s.split(path)
	if err != nil {
		return nil, "", err
	}
	dir, err := s.MakeAll(parent)
	return dir, name, err
}

// MakeAll pins the directory path and creates what is missing of it.
func (s *Space) MakeAll(path string) (*Pinned, error) {
	dir, err := s.Pin(path, syscall.O_DIRECTORY)
	if wire.CodeOf(err) != wire.CodeFileNotFound {
		return dir, err
	}
	above, name, err := s.split(path)
	if err != nil {
		return nil, err
	}
	parent, err := s.MakeAll(above)
	if err != nil {
		return nil, err
	}
	defer parent.Close()
	if err := syscall.Mkdirat(parent.FD, name, 0o755); err == nil {
		s.made = append(s.made, path)
	} else if err != syscall.EEXIST {
		return nil, s.Explain(path, err)
	}
	return s.Pin(path, syscall.O_DIRECTORY)
}

// RemoveMade removes the directories that MakeAll created, if they are empty.
func (s *Space) RemoveMade() {
	for i := len(s.made) - 1; i >= 0; i-- {
		if dir, name, err := s.pinParent(s.made[i]); err == nil {
			sys.UnlinkAt(dir.FD, name, sys.RemoveDir)
			dir.Close()
		}
	}
}

// split splits a path into the directory and the last name.
func (s *Space) split(path string) (parent, name string, err error) {
	trimmed := strings.TrimRight(s.absolute(path), "/")
	cut := strings.LastIndexByte(trimmed, '/')
	if cut < 0 {
		return "", "", s.Explain(path, syscall.EXDEV)
	}
	name = trimmed[cut+1:]
	if name == "." || name == ".." {
		return "", "", wire.Invalid("path must end in a name: %s", path)
	}
	return trimmed[:cut+1], name, nil
}

func (s *Space) absolute(path string) string {
	if strings.HasPrefix(path, "/") {
		return path
	}
	return s.Workdir + "/" + path
}

func (s *Space) contains(real string) bool {
	for _, root := range s.roots {
		if real == root || strings.HasPrefix(real, strings.TrimRight(root, "/")+"/") {
			return true
		}
	}
	return false
}

// Explain turns the failure of a call on path into an error with a code. For a path outside the roots it reveals
// nothing about what is there.
func (s *Space) Explain(path string, err error) error {
	explained := s.nameError(path, err)
	var errno syscall.Errno
	var known *wire.Error
	if !errors.As(err, &errno) || !errors.As(explained, &known) {
		return explained
	}
	switch {
	case errno == syscall.EROFS:
		known.Detail["read_only"] = true
	case s.reachesAll && (known.Code == wire.CodePermissionDenied || known.Code == wire.CodePathOutside):
		known.Detail["user"] = "root"
	case known.Code == wire.CodeDiskFull && isInMemory(filepath.Clean(s.absolute(path))):
		known.Detail["in_memory"] = true
	}
	return explained
}

func (s *Space) nameError(path string, err error) error {
	var errno syscall.Errno
	if wire.CodeOf(err) != "" || !errors.As(err, &errno) {
		return err
	}
	switch errno {
	case syscall.ENOENT, syscall.ENOTDIR, syscall.EACCES:
		if !s.contains(filepath.Clean(s.absolute(path))) {
			return wire.PathError(path, syscall.EXDEV)
		}
	case syscall.ENAMETOOLONG:
		return wire.Invalid("path or name is too long")
	case syscall.EBUSY, syscall.ETXTBSY:
		return wire.PathError(path, syscall.EACCES)
	case syscall.ENXIO, syscall.ENODEV:
		return notAFile(path)
	}
	return wire.PathError(path, errno)
}

func notAFile(path string) error {
	return wire.NewError(wire.CodeNotAFile, "not a regular file: "+path, wire.Fields{"path": path})
}

// Reopen opens a pinned file with the rights of the user. It opens only regular files and directories, so it never
// blocks.
func (s *Space) Reopen(p *Pinned, flags int, path string) (*os.File, *syscall.Stat_t, error) {
	st := &syscall.Stat_t{}
	if err := syscall.Fstat(p.FD, st); err != nil {
		return nil, nil, s.Explain(path, err)
	}
	isDir := st.Mode&syscall.S_IFMT == syscall.S_IFDIR
	switch {
	case isDir && flags&syscall.O_DIRECTORY == 0:
		return nil, nil, s.Explain(path, syscall.EISDIR)
	case !isDir && flags&syscall.O_DIRECTORY != 0:
		return nil, nil, s.Explain(path, syscall.ENOTDIR)
	case !isDir && st.Mode&syscall.S_IFMT != syscall.S_IFREG:
		return nil, nil, notAFile(path)
	}
	descriptors, err := descriptorDir()
	if err != nil {
		return nil, nil, err
	}
	fd, err := syscall.Openat(descriptors, strconv.Itoa(p.FD), flags|syscall.O_CLOEXEC|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, nil, s.Explain(path, err)
	}
	return os.NewFile(uintptr(fd), p.path), st, nil
}

// ReopenAny opens a pinned file or directory for reading.
func (s *Space) ReopenAny(p *Pinned, path string) (*os.File, *syscall.Stat_t, error) {
	st := &syscall.Stat_t{}
	if err := syscall.Fstat(p.FD, st); err != nil {
		return nil, nil, s.Explain(path, err)
	}
	flags := syscall.O_RDONLY
	if st.Mode&syscall.S_IFMT == syscall.S_IFDIR {
		flags |= syscall.O_DIRECTORY
	}
	return s.Reopen(p, flags, path)
}

// DescriptorPath is the path of an open file.
func DescriptorPath(fd int) (string, error) {
	descriptors, err := descriptorDir()
	if err != nil {
		return "", err
	}
	return sys.ReadlinkAt(descriptors, strconv.Itoa(fd))
}

// The root of the sandbox and the runner's descriptors, kept open so that later mounts over them have no effect.
var (
	rootDir       = openOnce("/")
	descriptorDir = openOnce("/proc/self/fd")
)

func openOnce(path string) func() (int, error) {
	var once sync.Once
	var fd int
	var err error
	return func() (int, error) {
		once.Do(func() { fd, err = syscall.Open(path, sys.OpenPath|syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0) })
		return fd, err
	}
}
