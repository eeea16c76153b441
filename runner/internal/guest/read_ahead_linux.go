package guest

import (
	"io"
	"os"
	"path/filepath"
	"syscall"
)

// Files that a first shell reads. They are only read: no program of an image runs before the session exists.
var firstRead = []string{
	"/bin/bash", "/bin/sh", "/lib*/ld-linux*", "/lib/*/ld-linux*", "/lib/ld-musl*", "/etc/ld.so.cache", "/lib/*/libc.so.6", "/lib64/libc.so.6",
	"/lib/*/libtinfo.so.6", "/lib64/libtinfo.so.6", "/usr/bin/id", "/etc/nsswitch.conf", "/etc/passwd", "/etc/profile", "/etc/profile.d/*.sh",
	"/etc/bash.bashrc", "/usr/lib/locale/C.utf8/LC_*", "/usr/lib/locale/C.utf8/LC_MESSAGES/*", "/usr/lib/*/gconv/gconv-modules.cache",
}

// Paths that a first shell tries and most images lack. The kernel caches that they do not exist.
var firstSought = []string{
	"/usr/local/sbin/bash", "/usr/local/bin/bash", "/usr/sbin/bash", "/usr/local/sbin/id", "/usr/local/bin/id", "/usr/sbin/id",
	"/etc/ld.so.preload", "/usr/lib/locale/locale-archive", "/usr/share/locale/locale.alias", "/usr/lib/locale/C.UTF-8",
	"/etc/debian_chroot", "/usr/lib/command-not-found", "/usr/share/command-not-found",
}

// Several times the size of a shell and its libraries.
const (
	maxReadAhead      = 64 << 20
	maxReadAheadFiles = 64
)

// readAhead reads the files of a first shell into the page cache, so that a snapshot contains them.
func readAhead() {
	for _, path := range firstSought {
		if file, err := inRoot(path); err == nil {
			file.Close()
		}
	}
	left, files := int64(maxReadAhead), 0
	for _, pattern := range firstRead {
		paths, _ := filepath.Glob(rootDir + pattern)
		for _, path := range paths {
			if files++; files > maxReadAheadFiles {
				return
			}
			file, err := inRoot(path[len(rootDir):])
			if err != nil {
				continue
			}
			left -= readUpTo(left, file)
			file.Close()
		}
	}
}

// readUpTo reads a file that was opened with O_PATH and returns how many bytes it read.
//
// SECURITY: an image may have any kind of file under the name of a program. A pipe would block the machine for ever, and with it every
// later snapshot.
func readUpTo(max int64, path *os.File) int64 {
	info, err := path.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return 0
	}
	// Opened again: a descriptor of O_PATH cannot be read.
	file, err := os.OpenFile(fdPath(path), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return 0
	}
	defer file.Close()
	// Files of the kernel have size 0 and may have no end.
	if info.Size() < max {
		max = info.Size()
	}
	n, _ := io.CopyN(io.Discard, file, max)
	return n
}
