package files

import (
	"os"
	"strconv"
	"strings"
	"syscall"

	"sandglass/runner/internal/sys"
)

// addTree watches a directory and, if recursive, those below it. With report it collects the entries, which may have
// been created before the directory was watched.
func (w *watcher) addTree(fd int, path string, depth int, report bool) error {
	if len(w.paths) >= maxWatches || depth > maxDepth {
		w.isFull = true
		return nil
	}
	number, err := syscall.InotifyAddWatch(w.fd, "/proc/self/fd/"+strconv.Itoa(fd), watchMask)
	if err == syscall.ENOSPC && path != "" {
		w.isFull = true
		return nil
	}
	if err != nil {
		return err
	}
	w.paths[int32(number)] = path
	if !w.recursive {
		return nil
	}
	return w.addBelow(fd, path, depth, report)
}

func (w *watcher) addBelow(fd int, path string, depth int, report bool) error {
	again, err := sys.Openat2(fd, ".", syscall.O_RDONLY|syscall.O_DIRECTORY, 0)
	if err == syscall.ENOTDIR {
		return nil
	}
	if err != nil {
		return skippable(err)
	}
	dir := os.NewFile(uintptr(again), path)
	defer dir.Close()
	names, _, err := sortedNames(dir, maxEntries)
	if err != nil {
		return skippable(err)
	}
	for _, name := range names {
		at := strings.TrimPrefix(path+"/"+name, "/")
		if report && !isTemporary(name) {
			w.found = append(w.found, at)
		}
		sub, err := sys.OpenDirAt(int(dir.Fd()), name)
		if err != nil {
			continue // not a directory, or not accessible
		}
		err = w.addTree(sub, at, depth+1, report)
		syscall.Close(sub)
		if err != nil {
			return err
		}
	}
	return nil
}

// addMade watches a directory that was created or moved into the tree.
func (w *watcher) addMade(event *syscall.InotifyEvent, path string) error {
	if !w.recursive || event.Mask&syscall.IN_ISDIR == 0 {
		return nil
	}
	wasFull := w.isFull
	w.found = nil
	err := w.space.Do(func() error {
		fd, err := sys.Openat2(w.top.FD, path, syscall.O_RDONLY|syscall.O_DIRECTORY, sys.ResolveBeneath|sys.ResolveNoSymlinks|sys.ResolveNoXdev)
		if err != nil {
			return skippable(err)
		}
		defer syscall.Close(fd)
		return w.addTree(fd, path, strings.Count(path, "/")+2, true)
	})
	if err != nil {
		return err
	}
	for _, found := range w.found {
		if err := w.send("created", found, ""); err != nil {
			return err
		}
	}
	if w.isFull && !wasFull {
		return w.send("overflow", "", "")
	}
	return nil
}

// endMoves reports the moves without a second event: the entry has left the tree.
func (w *watcher) endMoves() error {
	moves := w.moves
	w.moves = map[uint32]string{}
	for _, from := range moves {
		for number, path := range w.paths {
			if path == from || strings.HasPrefix(path, from+"/") {
				syscall.InotifyRmWatch(w.fd, uint32(number))
				delete(w.paths, number)
			}
		}
		if isTemporary(BaseName(from)) {
			continue
		}
		if err := w.send("removed", from, ""); err != nil {
			return err
		}
	}
	return nil
}

func (w *watcher) renameBelow(from, to string) {
	for number, path := range w.paths {
		if path == from || strings.HasPrefix(path, from+"/") {
			w.paths[number] = to + path[len(from):]
		}
	}
}
