package unpack

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"syscall"
)

const blockBytes = 64 << 10

var zeros [blockBytes]byte

func (l *layer) addFile(name string, header *tar.Header, content io.Reader) error {
	// A sparse entry of a few bytes may claim any size.
	if header.Size > l.maxBytes-l.bytes {
		return &refusal{codeManyBytes, header.Name, "more bytes than an image may have"}
	}
	fd := -1
	err := l.replacing(name, func() (err error) {
		fd, err = syscall.Open(name, syscall.O_WRONLY|syscall.O_CREAT|syscall.O_EXCL|syscall.O_NOFOLLOW|syscall.O_CLOEXEC, 0o600)
		return err
	})
	if err != nil {
		return err
	}
	err = l.fill(fd, header, content)
	if closeErr := syscall.Close(fd); err == nil {
		err = closeErr
	}
	if err != nil {
		return err
	}
	if err := l.setOwnerAndMode(name, header); err != nil {
		return err
	}
	return setTime(name, header.ModTime)
}

// fill writes the content of a file. Blocks of zeros become holes.
func (l *layer) fill(fd int, header *tar.Header, content io.Reader) error {
	hasHoles := false
	for left := header.Size; left > 0; {
		chunk := l.buffer
		if int64(len(chunk)) > left {
			chunk = chunk[:left]
		}
		n, err := io.ReadFull(content, chunk)
		if err != nil {
			return invalid(header.Name, "not a whole tar archive: "+err.Error())
		}
		left -= int64(n)
		for block := chunk; len(block) > 0; {
			size := len(block)
			if size > blockBytes {
				size = blockBytes
			}
			if hasHoles, err = l.writeBlock(fd, block[:size], hasHoles); err != nil {
				return err
			}
			block = block[size:]
		}
	}
	l.bytes += header.Size
	if !hasHoles {
		return nil
	}
	return syscall.Ftruncate(fd, header.Size)
}

func (l *layer) writeBlock(fd int, block []byte, hasHoles bool) (bool, error) {
	if len(block) == blockBytes && bytes.Equal(block, zeros[:]) {
		_, err := syscall.Seek(fd, blockBytes, io.SeekCurrent)
		return true, err
	}
	for written := 0; written < len(block); {
		n, err := syscall.Write(fd, block[written:])
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			return hasHoles, err
		}
		written += n
	}
	return hasHoles, l.wrote(int64(len(block)))
}

func isUnsupported(err error) bool {
	return errors.Is(err, syscall.EOPNOTSUPP)
}
