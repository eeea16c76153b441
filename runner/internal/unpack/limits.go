package unpack

import (
	"path"
	"strings"
	"syscall"
)

const (
	// Space that every entry takes on a disk: about a block.
	entryBytes = 4 << 10
	// Bytes that are written between two checks of free space.
	checkEvery = 8 << 20
	// SECURITY: programs that mount or remove a layer prefix its paths, and the result must still be a valid path. Through links a folder can
	// be deeper than any name in the layer, so the real path of a folder counts.
	maxTreeBytes = 3 << 10
	maxDepth     = 256
	// One of this many inodes of a disk stays free.
	inodeShare = 50
)

// count counts an entry, or a folder that an entry implies, before it is made. SECURITY: an entry of a few bytes can imply hundreds of
// folders.
func (l *layer) count(name string) error {
	if l.entries++; l.entries > l.maxEntries {
		return tooManyEntries(name)
	}
	return l.spend(name, entryBytes)
}

func tooManyEntries(name string) error {
	return &refusal{codeManyEntries, name, "more entries than an image may have"}
}

func (l *layer) spend(name string, bytes int64) error {
	if bytes > l.maxBytes-l.bytes {
		return &refusal{codeManyBytes, name, "more bytes than an image may have"}
	}
	l.bytes += bytes
	return l.wrote(bytes)
}

// wrote counts bytes that were written and checks the free space now and then.
func (l *layer) wrote(bytes int64) error {
	if l.unchecked += bytes; l.unchecked < checkEvery {
		return nil
	}
	l.unchecked = 0
	return l.checkSpace()
}

// checkSpace fails before the disk is full, because sandboxes have files on the same disk.
func (l *layer) checkSpace() error {
	disk := &syscall.Statfs_t{}
	if err := syscall.Statfs("/", disk); err != nil {
		return err
	}
	// A filesystem that allocates inodes as needed reports none.
	if int64(disk.Bavail)*disk.Bsize < l.reserve || disk.Ffree < disk.Files/inodeShare {
		return syscall.ENOSPC
	}
	return nil
}

// checkRealPath checks the real path of a folder before it is made. It changes the working directory, which is safe because this process
// uses absolute paths only.
func checkRealPath(name string) error {
	if err := syscall.Chdir(path.Dir(name)); err != nil {
		return err
	}
	buffer := [maxTreeBytes + 256]byte{}
	n, err := syscall.Getcwd(buffer[:])
	if err == syscall.ERANGE {
		return syscall.ENAMETOOLONG
	}
	if err != nil {
		return err
	}
	return checkLength(name, path.Join(string(buffer[:n-1]), path.Base(name)))
}

// checkLength bounds the length and the depth of the path of an entry.
func checkLength(entry, real string) error {
	if len(real) > maxTreeBytes {
		return invalid(entry, "its path is too long")
	}
	if strings.Count(real, "/") > maxDepth {
		return invalid(entry, "its path has too many folders")
	}
	return nil
}
