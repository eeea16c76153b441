package disk

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

// An openFolder is a folder of the disk and its name in the tar.
type openFolder struct {
	name string
	dir  *os.File
}

// save writes the folders to a tar, which appears at path only when it is complete.
func save(folders []openFolder, path string) error {
	file, err := os.OpenFile(path+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("save files: %w", err)
	}
	defer file.Close()
	buffered := bufio.NewWriterSize(file, 1<<20)
	archive := tar.NewWriter(buffered)
	for _, f := range folders {
		if err := saveTree(archive, fmt.Sprintf("/proc/self/fd/%d", f.dir.Fd()), f.name); err != nil {
			return fmt.Errorf("save %s: %w", f.name, err)
		}
	}
	for _, finish := range []func() error{archive.Close, buffered.Flush, file.Sync} {
		if err := finish(); err != nil {
			return fmt.Errorf("save files: %w", err)
		}
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("save files: %w", err)
	}
	return nil
}

func saveTree(archive *tar.Writer, root, name string) error {
	entries, err := os.ReadDir(root + "/.")
	if err != nil {
		return err
	}
	if err := saveEntry(archive, root+"/.", name); err != nil {
		return err
	}
	for _, e := range entries {
		path, entry := root+"/"+e.Name(), name+"/"+e.Name()
		if e.IsDir() {
			err = saveTree(archive, path, entry)
		} else {
			err = saveEntry(archive, path, entry)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func saveEntry(archive *tar.Writer, path, name string) error {
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
	// Owners are stored as numbers: the host has no names for the sandbox's ids.
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

// restore fills an empty disk from a tar that save wrote. No other process uses the disk yet.
func restore(path, target string) error {
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
			err = unsaveEntry(archive, header, filepath.Join(target, header.Name))
		}
		if err != nil {
			return fmt.Errorf("restore files: %w", err)
		}
	}
}

func unsaveEntry(archive *tar.Reader, header *tar.Header, path string) error {
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
