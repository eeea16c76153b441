package launch

import (
	"archive/tar"
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// A disk in memory lives as long as something uses it. A keeper is a process that does nothing but hold its folders open, so that
// files outlive a machine that ended by itself; a stop carries them over in a tar beside the session's record.

// A kept is a folder that is held open.
type kept struct {
	name string
	dir  *os.File
}

type keeper struct {
	state *state // nil where none is needed
	word  *os.File
}

// startKeeper makes the keeper of a disk in memory, which bears the session's folder in its command line. It ends when it loses this
// process, unless it was released.
func startKeeper(folder, mounted string, d *disk) (*keeper, error) {
	if d.Image != "" {
		return &keeper{}, nil
	}
	waiting, word, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make pipe: %w", err)
	}
	defer waiting.Close()
	held := []*os.File{waiting}
	for _, s := range keptFolders(d.Shown) {
		dir, err := os.Open(filepath.Join(mounted, s.Path))
		if err != nil {
			return nil, fmt.Errorf("hold %s: %w", s.Path, err)
		}
		defer dir.Close()
		held = append(held, dir)
	}
	cmd := &exec.Cmd{Path: "/proc/self/exe", Args: keeperArgs(folder), Dir: "/", ExtraFiles: held,
		SysProcAttr: &syscall.SysProcAttr{Setsid: true}}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the disk's keeper: %w", err)
	}
	s, err := describe(cmd.Process.Pid)
	if err != nil {
		return nil, err
	}
	return &keeper{s, word}, nil
}

func keeperArgs(folder string) []string { return []string{"runner", "launch", "keep", folder} }

// release lets the keeper live on without this process. Before it, a launcher that is killed takes the keeper along.
func (k *keeper) release() error {
	if k.state == nil {
		return nil
	}
	if _, err := k.word.Write([]byte(".")); err != nil {
		return fmt.Errorf("release the disk's keeper: %w", err)
	}
	return k.word.Close()
}

// keep is the keeper's life: descriptor 3 is the pipe, those after it the folders. The end job kills it.
func keep() error {
	var word [1]byte
	if n, err := os.NewFile(3, "pipe").Read(word[:]); n == 0 {
		return fmt.Errorf("not released: %w", err)
	}
	for {
		time.Sleep(24 * time.Hour)
	}
}

// hold takes over the folders that a keeper has open.
func hold(keeper *state, shown []onDisk) ([]kept, error) {
	var held []kept
	for i, s := range keptFolders(shown) {
		dir, err := os.Open(fmt.Sprintf("/proc/%d/fd/%d", keeper.Pid, 4+i))
		if err != nil {
			return nil, fmt.Errorf("hold %s: %w", s.Path, err)
		}
		held = append(held, kept{s.Path, dir})
	}
	return held, nil
}

// keptFolders are the places on the disk that the sandbox writes to.
func keptFolders(shown []onDisk) []onDisk {
	var folders []onDisk
	for _, s := range shown {
		if s.Folder {
			folders = append(folders, s)
		}
	}
	return folders
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
