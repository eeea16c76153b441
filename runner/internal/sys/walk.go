package sys

import (
	"strings"
	"syscall"
)

const (
	maxLinks = 40 // links followed on one path, as in the kernel
	// Directories of one walk, each of which is an open descriptor. A path has fewer names, but links may lead
	// deeper.
	maxPassed = 2200
)

// A walk does what openat2 does, one name at a time, for kernels that lack it: gVisor, and Linux before 5.6.
//
// SECURITY: the kernel never follows a name. The walk reads each link and walks its target under the same rules, so
// that magic links of procfs lead nowhere. A component that is swapped during the walk changes where the walk goes,
// but not what it may reach.
type walk struct {
	resolve uint64
	// passed are the open directories from the start of the walk to the current one.
	passed []int
	names  []string
	links  int
	device uint64
}

// walkTo opens path below dir: as an O_PATH descriptor, or a directory for reading.
func walkTo(dir int, path string, flags int, resolve uint64) (int, error) {
	start, err := syscall.Openat(dir, ".", OpenPath|syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	w := &walk{resolve: resolve, passed: []int{start}, names: strings.Split(path, "/")}
	defer w.close()
	if strings.HasPrefix(path, "/") && resolve&ResolveInRoot == 0 {
		return -1, syscall.EXDEV
	}
	st := &syscall.Stat_t{}
	if err := syscall.Fstat(start, st); err != nil {
		return -1, err
	}
	w.device = uint64(st.Dev)
	for w.skipEmpty(); len(w.names) > 0; w.skipEmpty() {
		if err := w.step(flags); err != nil {
			return -1, err
		}
	}
	if flags&OpenPath == 0 {
		return syscall.Openat(w.here(), ".", flags|syscall.O_NOFOLLOW|syscall.O_CLOEXEC, 0)
	}
	end := w.here()
	w.passed = w.passed[:len(w.passed)-1]
	return end, nil
}

func (w *walk) here() int { return w.passed[len(w.passed)-1] }

func (w *walk) close() {
	for _, fd := range w.passed {
		syscall.Close(fd)
	}
}

func (w *walk) skipEmpty() {
	for len(w.names) > 0 && (w.names[0] == "" || w.names[0] == ".") {
		w.names = w.names[1:]
	}
}

// step resolves one name.
func (w *walk) step(flags int) error {
	name := w.names[0]
	w.names = w.names[1:]
	if name == ".." {
		return w.up()
	}
	fd, err := syscall.Openat(w.here(), name, OpenPath|syscall.O_NOFOLLOW|syscall.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	st := &syscall.Stat_t{}
	if err := syscall.Fstat(fd, st); err != nil {
		syscall.Close(fd)
		return err
	}
	isLast := len(w.names) == 0
	kind := st.Mode & syscall.S_IFMT
	switch {
	case kind == syscall.S_IFLNK && !(isLast && flags&syscall.O_NOFOLLOW != 0):
		syscall.Close(fd)
		return w.follow(name)
	case kind != syscall.S_IFDIR && (!isLast || flags&syscall.O_DIRECTORY != 0):
		err = syscall.ENOTDIR
	case w.resolve&ResolveNoXdev != 0 && uint64(st.Dev) != w.device:
		err = syscall.EXDEV
	}
	if err != nil {
		syscall.Close(fd)
		return err
	}
	if len(w.passed) == maxPassed {
		syscall.Close(fd)
		return syscall.ENAMETOOLONG
	}
	w.passed = append(w.passed, fd)
	return nil
}

// up goes to the parent directory. The parent of the root is the root.
func (w *walk) up() error {
	if len(w.passed) > 1 {
		syscall.Close(w.here())
		w.passed = w.passed[:len(w.passed)-1]
		return nil
	}
	if w.resolve&ResolveInRoot == 0 {
		return syscall.EXDEV
	}
	return nil
}

// follow continues with the target of a link.
func (w *walk) follow(name string) error {
	w.links++
	if w.resolve&ResolveNoSymlinks != 0 || w.links > maxLinks {
		return syscall.ELOOP
	}
	target, err := ReadlinkAt(w.here(), name)
	if err == syscall.EINVAL {
		target, err = name, nil // replaced since: it is not a link any more
	}
	if err != nil {
		return err
	}
	if strings.HasPrefix(target, "/") {
		if w.resolve&ResolveInRoot == 0 {
			return syscall.EXDEV
		}
		for len(w.passed) > 1 {
			_ = w.up()
		}
	}
	w.names = append(strings.Split(target, "/"), w.names...)
	return nil
}
