package launch

import (
	"archive/tar"
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
)

// A disk in memory ends with its machine. Its files are carried over a stop in a tar beside the session's record.

// A kept is a folder of a running machine, held open so that it outlives the machine's processes.
type kept struct {
	name string
	dir  *os.File
}

// hold opens the folders of the machine that are on its disk.
func hold(pid int, shown []onDisk) ([]kept, error) {
	var held []kept
	for _, s := range shown {
		if s.Readonly {
			continue
		}
		// The target is a mount point: nothing in the sandbox can put a link in its place.
		dir, err := os.Open(filepath.Join(fmt.Sprintf("/proc/%d/root", pid), s.Target))
		if err != nil {
			return nil, fmt.Errorf("hold %s: %w", s.Target, err)
		}
		held = append(held, kept{s.Path, dir})
	}
	return held, nil
}

// pack writes the held folders to a tar, which appears at path only when it is whole.
func pack(held []kept, path string) error {
	file, err := os.OpenFile(path+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("keep files: %w", err)
	}
	defer file.Close()
	buffered := bufio.NewWriterSize(file, 1<<20)
	archive := tar.NewWriter(buffered)
	for _, k := range held {
		if err := packTree(archive, fmt.Sprintf("/proc/self/fd/%d", k.dir.Fd()), k.name); err != nil {
			return fmt.Errorf("keep %s: %w", k.name, err)
		}
		k.dir.Close()
	}
	for _, finish := range []func() error{archive.Close, buffered.Flush, file.Sync} {
		if err := finish(); err != nil {
			return fmt.Errorf("keep files: %w", err)
		}
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("keep files: %w", err)
	}
	return nil
}

func packTree(archive *tar.Writer, root, name string) error {
	entries, err := os.ReadDir(root + "/.")
	if err != nil {
		return err
	}
	if err := packEntry(archive, root+"/.", name); err != nil {
		return err
	}
	for _, e := range entries {
		path, entry := root+"/"+e.Name(), name+"/"+e.Name()
		if e.IsDir() {
			err = packTree(archive, path, entry)
		} else {
			err = packEntry(archive, path, entry)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func packEntry(archive *tar.Writer, path, name string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if info.Mode()&(os.ModeSocket|os.ModeDevice|os.ModeNamedPipe) != 0 {
		return nil
	}
	link := ""
	if info.Mode()&os.ModeSymlink != 0 {
		if link, err = os.Readlink(path); err != nil {
			return err
		}
	}
	header, err := tar.FileInfoHeader(info, link)
	if err != nil {
		return err
	}
	header.Name, header.Format = name, tar.FormatPAX
	// Owners travel as numbers: names are the sandbox's own affair.
	header.Uname, header.Gname = "", ""
	if err := archive.WriteHeader(header); err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return nil
	}
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = io.CopyN(archive, file, header.Size)
	return err
}

// unpack fills a fresh disk from a tar that pack wrote. Nobody else uses the disk yet.
func unpack(path, target string) error {
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("restore files: %w", err)
	}
	defer file.Close()
	archive := tar.NewReader(bufio.NewReaderSize(file, 1<<20))
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = unpackEntry(archive, header, filepath.Join(target, header.Name))
		}
		if err != nil {
			return fmt.Errorf("restore files: %w", err)
		}
	}
}

func unpackEntry(archive *tar.Reader, header *tar.Header, path string) error {
	mode := os.FileMode(header.Mode) & os.ModePerm
	switch header.Typeflag {
	case tar.TypeDir:
		if err := os.Mkdir(path, 0o700); err != nil && !os.IsExist(err) {
			return err
		}
	case tar.TypeSymlink:
		if err := os.Symlink(header.Linkname, path); err != nil {
			return err
		}
		return os.Lchown(path, header.Uid, header.Gid)
	default:
		file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		_, err = io.Copy(file, archive)
		if closeErr := file.Close(); err == nil {
			err = closeErr
		}
		if err != nil {
			return err
		}
	}
	if err := os.Lchown(path, header.Uid, header.Gid); err != nil {
		return err
	}
	if err := os.Chmod(path, mode); err != nil {
		return err
	}
	return os.Chtimes(path, header.ModTime, header.ModTime)
}
