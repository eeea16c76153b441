package oci

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"unsafe"
)

const bootLogBytes = 64 << 10

// boundedFile makes a file in memory of a fixed size.
//
// SECURITY: the sandbox inherits it as stdout and stderr and may write to it without end. A file on disk would grow outside the session's
// quota, and a pipe would block its reader.
func boundedFile(size int64) (*os.File, error) {
	name := []byte("boot-log\x00")
	fd, _, errno := syscall.Syscall(sysMemfdCreate, uintptr(unsafe.Pointer(&name[0])), 3 /* CLOEXEC, ALLOW_SEALING */, 0)
	if errno != 0 {
		return nil, fmt.Errorf("make boot log: %w", errno)
	}
	file := os.NewFile(fd, "boot-log")
	if err := file.Truncate(size); err != nil {
		file.Close()
		return nil, fmt.Errorf("size boot log: %w", err)
	}
	const addSeals, sealSealShrinkGrow = 1033, 1 | 2 | 4
	if _, _, errno := syscall.Syscall(syscall.SYS_FCNTL, fd, addSeals, sealSealShrinkGrow); errno != 0 {
		file.Close()
		return nil, fmt.Errorf("seal boot log: %w", errno)
	}
	return file, nil
}

func readText(file *os.File) string {
	buffer := make([]byte, bootLogBytes)
	n, _ := file.ReadAt(buffer, 0)
	return strings.TrimRight(string(buffer[:n]), "\x00")
}

// summary is the first and the last line of a program's error output. The reason is in one of them; usage texts are between them.
func summary(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	first, last := bounded(lines[0]), bounded(lines[len(lines)-1])
	if first == last {
		return last
	}
	return first + " … " + last
}

func bounded(line string) string {
	if len(line) > 500 {
		return line[:500]
	}
	return line
}
