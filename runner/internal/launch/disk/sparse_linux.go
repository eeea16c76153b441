package disk

import (
	"fmt"
	"io"
	"os"
	"syscall"
)

const (
	seekData = 3
	seekHole = 4
)

// copySparse copies a file without its holes. The copy appears under its name when it is complete.
func copySparse(source, target string) error {
	from, err := os.Open(source)
	if err != nil {
		return fmt.Errorf("open empty disk: %w", err)
	}
	defer from.Close()
	to, err := os.OpenFile(target+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("make disk: %w", err)
	}
	defer to.Close()
	if err := copyData(from, to); err != nil {
		return fmt.Errorf("copy empty disk: %w", err)
	}
	if err := os.Rename(target+".new", target); err != nil {
		return fmt.Errorf("make disk: %w", err)
	}
	return nil
}

func copyData(from, to *os.File) error {
	info, err := from.Stat()
	if err != nil {
		return err
	}
	if err := to.Truncate(info.Size()); err != nil {
		return err
	}
	for end := int64(0); ; {
		start, err := syscall.Seek(int(from.Fd()), end, seekData)
		if err == syscall.ENXIO {
			return nil // only a hole is left
		}
		if err != nil {
			return err
		}
		if end, err = syscall.Seek(int(from.Fd()), start, seekHole); err != nil {
			return err
		}
		if _, err := from.Seek(start, io.SeekStart); err != nil {
			return err
		}
		if _, err := to.Seek(start, io.SeekStart); err != nil {
			return err
		}
		if _, err := io.CopyN(to, from, end-start); err != nil {
			return err
		}
	}
}
