package guest

import (
	"io"
	"os"
	"path/filepath"
	"syscall"
)

// What a first shell reads. Only read: nothing of an image runs before the session is there.
var firstRead = []string{
	"/bin/bash", "/bin/sh", "/lib*/ld-linux*", "/lib/*/ld-linux*", "/lib/ld-musl*", "/etc/ld.so.cache", "/lib/*/libc.so.6", "/lib64/libc.so.6",
	"/lib/*/libtinfo.so.6", "/lib64/libtinfo.so.6", "/usr/bin/id", "/etc/nsswitch.conf", "/etc/passwd", "/etc/profile", "/etc/profile.d/*.sh",
	"/etc/bash.bashrc", "/usr/lib/locale/C.utf8/LC_*", "/usr/lib/locale/C.utf8/LC_MESSAGES/*", "/usr/lib/*/gconv/gconv-modules.cache",
}

// Where it looks for what most images do not have. That something is not there is known from then on, too.
var firstSought = []string{
	"/usr/local/sbin/bash", "/usr/local/bin/bash", "/usr/sbin/bash", "/usr/local/sbin/id", "/usr/local/bin/id", "/usr/sbin/id",
	"/etc/ld.so.preload", "/usr/lib/locale/locale-archive", "/usr/share/locale/locale.alias", "/usr/lib/locale/C.UTF-8",
	"/etc/debian_chroot", "/usr/lib/command-not-found", "/usr/share/command-not-found",
}

// Several times what a shell and its libraries are, in all.
const (
	maxReadAhead      = 64 << 20
	maxReadAheadFiles = 64
)

// readAhead brings into memory what the first shell is made of, so that a snapshot has it.
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

// readUpTo reads a file that was opened as a path only, and gives how much it read.
//
// SECURITY: an image may have anything in the place of a program. A pipe would keep the machine waiting for ever, and with it every snapshot
// after this one.
func readUpTo(max int64, place *os.File) int64 {
	info, err := place.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return 0
	}
	// Opened anew: the descriptor of a path only cannot be read.
	file, err := os.OpenFile(fdPath(place), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return 0
	}
	defer file.Close()
	// What has no size, as files of the kernel, may have no end.
	if info.Size() < max {
		max = info.Size()
	}
	n, _ := io.CopyN(io.Discard, file, max)
	return n
}
