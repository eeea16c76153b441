package unpack

import (
	"path"
	"strings"
	"syscall"
)

const (
	// What a name takes of a disk, whatever is behind it: about a block.
	entryBytes = 4 << 10
	// How much is written between two looks at the disk.
	lookEvery = 8 << 20
	// SECURITY: who shows or removes a layer has names of its own before those in it, and together they have to be a path still. Links
	// can make one that is longer than any name in the layer, so it is what a folder really is that counts.
	maxTreeBytes = 3 << 10
	maxDepth     = 256
	// A disk keeps one of this many inodes free.
	inodeShare = 50
)

// count is called before something is made, by an entry or for one. SECURITY: an entry of a few bytes can imply hundreds of folders.
func (l *layer) count(name string) error {
	if l.entries++; l.entries > l.maxEntries {
		return tooManyEntries(name)
	}
	return l.spend(name, entryBytes)
}

func tooManyEntries(name string) error {
	return &refusal{"too_large", name, "more entries than an image may have"}
}

func (l *layer) spend(name string, bytes int64) error {
	if bytes > l.maxBytes-l.bytes {
		return &refusal{"too_large", name, "more bytes than an image may have"}
	}
	l.bytes += bytes
	return l.wrote(bytes)
}

// wrote looks at the disk now and then.
func (l *layer) wrote(bytes int64) error {
	if l.unchecked += bytes; l.unchecked < lookEvery {
		return nil
	}
	l.unchecked = 0
	return l.checkRoom()
}

// checkRoom ends the work before the disk is full: sandboxes have files on it, too.
func (l *layer) checkRoom() error {
	disk := &syscall.Statfs_t{}
	if err := syscall.Statfs("/", disk); err != nil {
		return err
	}
	// A filesystem that makes inodes as they are needed tells of none.
	if int64(disk.Bavail)*disk.Bsize < l.reserve || disk.Ffree < disk.Files/inodeShare {
		return syscall.ENOSPC
	}
	return nil
}

// checkPlace is for a folder that is to be made. All names that this process uses begin at the root, so it may be anywhere.
func checkPlace(name string) error {
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
	return checkTree(name, path.Join(string(buffer[:n-1]), path.Base(name)))
}

// checkTree is for the place that the name of an entry leads to.
func checkTree(entry, place string) error {
	if len(place) > maxTreeBytes {
		return invalid(entry, "its path is too long")
	}
	if strings.Count(place, "/") > maxDepth {
		return invalid(entry, "it is too many folders deep")
	}
	return nil
}
