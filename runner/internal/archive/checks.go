package archive

import (
	"errors"
	"fmt"
	"path"
	"strings"
	"syscall"

	"sandglass/runner/internal/wire"
)

const maxNameBytes = 255

// safeName cleans the name of an entry. The error says why a name is rejected.
func safeName(name string) (string, error) {
	switch {
	case name == "":
		return "", errors.New("it has no name")
	case len(name) > maxArchiveName:
		return "", fmt.Errorf("its name is longer than %d bytes", maxArchiveName)
	case strings.IndexByte(name, 0) >= 0:
		return "", errors.New("its name contains NUL")
	case strings.HasPrefix(name, "/"):
		return "", errors.New("its name is absolute")
	}
	for _, part := range strings.Split(name, "/") {
		if part == ".." {
			return "", errors.New("its name contains ..")
		}
		if len(part) > maxNameBytes {
			return "", fmt.Errorf("a part of its name is longer than %d bytes", maxNameBytes)
		}
	}
	return path.Clean(name), nil
}

func unsafeEntry(name, issue string) error {
	return wire.NewError(wire.CodeArchiveUnsafe, "archive refused: "+name+": "+issue, wire.Fields{"entry": name, "issue": issue})
}

// archiveError is the error of reading an archive: an error without a code means that the archive is invalid.
func archiveError(err error) error {
	if wire.CodeOf(err) != "" {
		return err
	}
	return wire.Invalid("invalid or truncated tar archive: %v", err)
}

// archiveOrDisk distinguishes an error of writing from an error of reading.
func archiveOrDisk(err error) error {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return errno
	}
	return archiveError(err)
}
