// Package layertar writes folders as the tar of an image's layer: the changes of a session to its root filesystem, or files of an image.
//
// SECURITY: what it reads was written by a sandbox. The caller has made the folder the root of this process, so that no link leads out of
// it; nothing is followed, devices and sockets are left out, and the number and size of entries are bounded.
package layertar

import (
	"archive/tar"
	"fmt"
	"io"
	"os"
	"path"
	"strings"
	"syscall"
	"time"
)

// Codes of a refusal.
const (
	CodeInvalid     = "invalid"
	CodeManyEntries = "too_many_entries"
	CodeManyBytes   = "too_many_bytes"
)

// A Refusal is an error that the files or a limit cause.
type Refusal struct{ Code, Entry, Issue string }

func (r *Refusal) Error() string { return r.Entry + ": " + r.Issue }

// Invalid is a refusal because of one entry.
func Invalid(entry, issue string) error { return &Refusal{CodeInvalid, entry, issue} }

// The limits of package unpack, so that a layer that is written here can be unpacked.
const (
	maxPathBytes   = 3072
	maxLevels      = 256
	whiteoutPrefix = ".wh."
	opaqueMarker   = ".wh..wh..opq"
	headerBytes    = 512
)

// Settings say how entries are written.
type Settings struct {
	MaxEntries int
	MaxBytes   int64
	// Owner maps the owner of a file to the owner in the layer.
	Owner func(uid, gid uint32) (int, int)
	// Mode is the mode of files and folders; nil keeps theirs.
	Mode *uint32
	// Excluded are paths in the layer that are left out, with everything below them.
	Excluded map[string]bool
	// IsUpper: the folder is the upper layer of an overlay, with its whiteouts and attributes.
	IsUpper bool
	// PublicOnly leaves out what not everybody may read.
	PublicOnly bool
	// Certificate is a certificate in PEM that is removed from files; "" for none.
	Certificate string
}

// A Writer writes one layer.
type Writer struct {
	Settings
	Entries int
	Bytes   int64

	out *tar.Writer
	// Names of files with several links, by inode.
	links map[linkKey]string
}

type linkKey struct{ device, inode uint64 }

// New returns a writer of a layer to out.
func New(out io.Writer, s Settings) *Writer {
	return &Writer{Settings: s, out: tar.NewWriter(out), links: map[linkKey]string{}}
}

// Close writes the end of the tar.
func (w *Writer) Close() error { return w.out.Close() }

// Folder writes an entry for a folder that need not exist here.
func (w *Writer) Folder(name string, mode uint32, uid, gid int) error {
	return w.header(&tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: int64(mode & 0o7777), Uid: uid, Gid: gid})
}

// Tree writes what is below a folder. name is its path in the layer, "" for the root.
func (w *Writer) Tree(folder, name string) error {
	return w.tree(folder, name, 0)
}

func (w *Writer) tree(folder, name string, level int) error {
	if level > maxLevels {
		return Invalid(shown(name), "it is below too many folders")
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		return fmt.Errorf("read folder: %w", err)
	}
	for _, e := range entries {
		inner := path.Join(name, e.Name())
		if w.Excluded[inner] {
			continue
		}
		if err := w.Entry(folder+"/"+e.Name(), inner, level); err != nil {
			return err
		}
	}
	return nil
}

// Entry writes a file, a link or a folder with everything below it.
func (w *Writer) Entry(file, name string, level int) error {
	st := &syscall.Stat_t{}
	if err := syscall.Lstat(file, st); err != nil {
		return fmt.Errorf("stat: %w", err)
	}
	if st.Mode&syscall.S_IFMT == syscall.S_IFCHR && st.Rdev == 0 && w.IsUpper {
		dir, base := path.Split(name)
		return w.header(&tar.Header{Typeflag: tar.TypeReg, Name: dir + whiteoutPrefix + base})
	}
	if strings.HasPrefix(path.Base(name), whiteoutPrefix) {
		return Invalid(shown(name), "a layer cannot have a file whose name begins with .wh.")
	}
	if w.PublicOnly && !isPublic(st.Mode) {
		return nil
	}
	uid, gid := w.Owner(st.Uid, st.Gid)
	mode := st.Mode & 0o7777
	if w.Mode != nil && st.Mode&syscall.S_IFMT != syscall.S_IFLNK {
		mode = *w.Mode
	}
	header := &tar.Header{Name: name, Mode: int64(mode), Uid: uid, Gid: gid, ModTime: time.Unix(st.Mtim.Sec, 0)}
	switch st.Mode & syscall.S_IFMT {
	case syscall.S_IFDIR:
		return w.folder(file, header, level)
	case syscall.S_IFREG:
		return w.file(file, header, st)
	case syscall.S_IFLNK:
		target, err := os.Readlink(file)
		if err != nil {
			return fmt.Errorf("read link: %w", err)
		}
		header.Typeflag, header.Linkname, header.Mode = tar.TypeSymlink, target, 0o777
		return w.header(header)
	case syscall.S_IFIFO:
		header.Typeflag = tar.TypeFifo
		return w.header(header)
	}
	return nil // a device or a socket
}

func (w *Writer) folder(file string, header *tar.Header, level int) error {
	name := header.Name
	header.Typeflag, header.Name = tar.TypeDir, name+"/"
	if w.IsUpper && attribute(file, "trusted.overlay.redirect") != "" {
		return Invalid(shown(name), "the kernel moved this folder in a way that a layer cannot describe")
	}
	if err := w.header(header); err != nil {
		return err
	}
	if w.IsUpper && attribute(file, "trusted.overlay.opaque") == "y" {
		if err := w.header(&tar.Header{Typeflag: tar.TypeReg, Name: path.Join(name, opaqueMarker)}); err != nil {
			return err
		}
	}
	return w.tree(file, name, level+1)
}

func (w *Writer) header(header *tar.Header) error {
	if len(header.Name) > maxPathBytes {
		return Invalid(shown(header.Name), "its path is too long")
	}
	if w.Entries++; w.Entries > w.MaxEntries {
		return &Refusal{CodeManyEntries, shown(header.Name), "too many files"}
	}
	if err := w.spend(header.Name, headerBytes+header.Size); err != nil {
		return err
	}
	header.Format = tar.FormatPAX
	if err := w.out.WriteHeader(header); err != nil {
		return fmt.Errorf("write %s: %w", shown(header.Name), err)
	}
	return nil
}

func (w *Writer) spend(name string, bytes int64) error {
	if w.Bytes += bytes; w.Bytes > w.MaxBytes {
		return &Refusal{CodeManyBytes, shown(name), "too many bytes"}
	}
	return nil
}

func isPublic(mode uint32) bool {
	switch mode & syscall.S_IFMT {
	case syscall.S_IFDIR:
		return mode&0o005 == 0o005
	case syscall.S_IFREG:
		return mode&0o004 != 0
	}
	return true
}

// attribute returns a short extended attribute; "" if there is none.
func attribute(file, name string) string {
	buffer := make([]byte, 4096)
	n, err := syscall.Getxattr(file, name, buffer)
	if err == syscall.ERANGE {
		return string(buffer)
	}
	if err != nil || n <= 0 {
		return ""
	}
	return string(buffer[:n])
}

// shown is a name for messages.
func shown(name string) string {
	if len(name) > 256 {
		name = name[:256] + "…"
	}
	return "/" + strings.ToValidUTF8(name, "�")
}
