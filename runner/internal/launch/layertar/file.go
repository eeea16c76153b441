package layertar

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
)

const xattrPax = "SCHILY.xattr."

// Files above this size are not searched for the certificate. Bundles of certificates have less than 1 MiB.
const maxBundleBytes = 4 << 20

// Extended attributes of a file that are kept, in bytes together.
const maxAttributeBytes = 64 << 10

// file writes a regular file: its content, or a hard link to an earlier entry.
func (w *Writer) file(path string, header *tar.Header, st *syscall.Stat_t) error {
	if st.Nlink > 1 {
		key := linkKey{uint64(st.Dev), st.Ino}
		if first, ok := w.links[key]; ok {
			header.Typeflag, header.Linkname = tar.TypeLink, first
			return w.header(header)
		}
		w.links[key] = header.Name
	}
	// O_NONBLOCK does not matter for a regular file, which it was a moment ago.
	fd, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open %s: %w", shown(header.Name), err)
	}
	file := os.NewFile(uintptr(fd), path)
	defer file.Close()
	header.Typeflag, header.Size = tar.TypeReg, st.Size
	header.PAXRecords = attributes(path)
	content := io.Reader(io.LimitReader(file, st.Size))
	if w.Certificate != "" && st.Size <= maxBundleBytes {
		data, err := io.ReadAll(content)
		if err != nil {
			return fmt.Errorf("read %s: %w", shown(header.Name), err)
		}
		data = without(data, w.Certificate)
		header.Size, content = int64(len(data)), bytes.NewReader(data)
	}
	if err := w.header(header); err != nil {
		return err
	}
	n, err := io.Copy(w.out, content)
	if err == nil && n < header.Size {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", shown(header.Name), err)
	}
	return nil
}

// without removes a certificate in PEM, with the line break after it.
func without(data []byte, certificate string) []byte {
	pem := []byte(strings.TrimSpace(certificate))
	if !bytes.Contains(data, pem) {
		return data
	}
	data = bytes.ReplaceAll(data, append(append([]byte{}, pem...), '\n'), nil)
	return bytes.ReplaceAll(data, pem, nil)
}

// attributes returns the user attributes of a file as records of the tar; nil for none. File capabilities are not kept: a sandbox cannot set
// them.
func attributes(path string) map[string]string {
	buffer := make([]byte, maxAttributeBytes)
	n, err := syscall.Listxattr(path, buffer)
	if err != nil || n <= 0 {
		return nil
	}
	var records map[string]string
	left := maxAttributeBytes
	for _, name := range strings.Split(strings.TrimSuffix(string(buffer[:n]), "\x00"), "\x00") {
		if !strings.HasPrefix(name, "user.") || strings.HasPrefix(name, "user.overlay.") || strings.ContainsAny(name, "=\n") {
			continue
		}
		value := attribute(path, name)
		if left -= len(name) + len(value); value == "" || left < 0 {
			continue
		}
		if records == nil {
			records = map[string]string{}
		}
		records[xattrPax+name] = value
	}
	return records
}
