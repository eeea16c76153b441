package files

import (
	"bytes"
	"io"
	"os"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"sandglass/runner/internal/wire"
)

const (
	maxWatches = 8192
	// The second event of a move follows the first at once, or never.
	moveWait = 20 * time.Millisecond

	watchMask = syscall.IN_CREATE | syscall.IN_DELETE | syscall.IN_MODIFY | syscall.IN_ATTRIB | syscall.IN_MOVED_FROM |
		syscall.IN_MOVED_TO | syscall.IN_DELETE_SELF | syscall.IN_MOVE_SELF
)

// watch reports changes below a directory, or of one file, until the client closes. The queue of the kernel is the
// buffer: if the client reads too slowly, or the tree has too many directories, it is sent an overflow event and has
// to look again.
func (r *requests) watch(s *wire.Stream, q *wire.Request) error {
	args := struct {
		Target
		Recursive bool `json:"recursive"`
	}{}
	if err := q.Decode(&args); err != nil {
		return err
	}
	if args.Path == "" && args.PathBase64 == "" {
		args.Path = "."
	}
	space, where, err := args.Resolve(r.cfg)
	if err != nil {
		return err
	}
	w := &watcher{space: space, stream: s, recursive: args.Recursive, paths: map[int32]string{}, moves: map[uint32]string{}}
	if err := w.open(where); err != nil {
		return err
	}
	defer w.close()
	if err := s.Reply(wire.Fields{"ok": true}); err != nil {
		return err
	}
	if w.isFull {
		if err := w.send("overflow", "", ""); err != nil {
			return err
		}
	}
	go func() {
		for {
			if _, err := s.Next(); err != nil {
				w.events.Close()
				return
			}
		}
	}()
	return w.loop()
}

type watcher struct {
	space     *Space
	stream    *wire.Stream
	recursive bool
	top       *Pinned
	events    *os.File
	fd        int
	paths     map[int32]string // path of each watch relative to top; empty for top itself
	isFull    bool
	moves     map[uint32]string // moves whose second event is missing, by cookie
	found     []string          // entries of a directory when its watch was added
	last      [2]string         // last event and path of this batch, to send a burst of writes once
}

func (w *watcher) open(where string) error {
	return w.space.Do(func() (err error) {
		if w.top, err = w.space.Pin(where, 0); err != nil {
			return err
		}
		if w.fd, err = syscall.InotifyInit1(syscall.IN_CLOEXEC | syscall.IN_NONBLOCK); err != nil {
			w.top.Close()
			return err
		}
		w.events = os.NewFile(uintptr(w.fd), "inotify")
		if err = w.addTree(w.top.FD, "", 1, false); err != nil {
			w.close()
		}
		return w.space.Explain(where, err)
	})
}

func (w *watcher) close() {
	w.events.Close()
	w.top.Close()
}

func (w *watcher) loop() error {
	buf := make([]byte, 64<<10)
	for {
		if len(w.moves) > 0 {
			w.events.SetReadDeadline(time.Now().Add(moveWait))
		} else {
			w.events.SetReadDeadline(time.Time{})
		}
		n, err := w.events.Read(buf)
		if os.IsTimeout(err) {
			if err := w.endMoves(); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			return io.EOF // closed because the client has closed
		}
		w.last = [2]string{}
		for rest := buf[:n]; len(rest) >= syscall.SizeofInotifyEvent; {
			event := (*syscall.InotifyEvent)(unsafe.Pointer(&rest[0]))
			name := rest[syscall.SizeofInotifyEvent : syscall.SizeofInotifyEvent+int(event.Len)]
			rest = rest[syscall.SizeofInotifyEvent+int(event.Len):]
			if err := w.handle(event, string(bytes.TrimRight(name, "\x00"))); err != nil {
				return err
			}
		}
	}
}

func (w *watcher) handle(event *syscall.InotifyEvent, name string) error {
	if event.Mask&syscall.IN_Q_OVERFLOW != 0 {
		w.moves = map[uint32]string{}
		return w.send("overflow", "", "")
	}
	base, ok := w.paths[event.Wd]
	if !ok {
		return nil
	}
	if event.Mask&syscall.IN_IGNORED != 0 {
		delete(w.paths, event.Wd)
		return nil
	}
	path := base
	if name != "" {
		path = strings.TrimPrefix(base+"/"+name, "/")
	} else if base != "" {
		return nil // a watched subdirectory: its parent reports it
	}
	switch {
	case event.Mask&syscall.IN_MOVED_FROM != 0:
		w.moves[event.Cookie] = path
		return nil
	case event.Mask&syscall.IN_MOVED_TO != 0:
		return w.moved(event, name, path)
	case isTemporary(name):
		return nil
	case event.Mask&syscall.IN_CREATE != 0:
		if err := w.send("created", path, ""); err != nil {
			return err
		}
		return w.addMade(event, path)
	case event.Mask&(syscall.IN_DELETE|syscall.IN_DELETE_SELF|syscall.IN_MOVE_SELF) != 0:
		return w.send("removed", path, "")
	case event.Mask&(syscall.IN_MODIFY|syscall.IN_ATTRIB) != 0 && (name != "" || event.Mask&syscall.IN_ISDIR == 0):
		return w.send("modified", path, "")
	}
	return nil
}

// moved joins the two events of a move. A move out of the watched tree has no second event, a move into it no first.
func (w *watcher) moved(event *syscall.InotifyEvent, name, path string) error {
	from, known := w.moves[event.Cookie]
	delete(w.moves, event.Cookie)
	switch {
	case known && isTemporary(BaseName(from)):
		// A write of this runner ends with a rename.
		return w.send("modified", path, "")
	case !known:
		if err := w.send("created", path, ""); err != nil {
			return err
		}
		return w.addMade(event, path)
	}
	w.renameBelow(from, path)
	return w.send("moved", path, from)
}

func (w *watcher) send(event, path, from string) error {
	if event == "modified" && w.last == [2]string{event, path} {
		return nil
	}
	w.last = [2]string{event, path}
	f := withPath(wire.Fields{"event": event}, "path", w.absolute(path))
	if from != "" {
		withPath(f, "from", w.absolute(from))
	}
	return w.stream.Send("change", f, nil)
}

func (w *watcher) absolute(path string) string {
	if path == "" {
		return w.top.path
	}
	return join(w.top.path, path)
}
