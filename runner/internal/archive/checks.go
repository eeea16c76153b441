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

// safeName cleans an entry's name, or says what is wrong with it.
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

// archiveError says that it is the archive that is broken, unless something else is known to be.
func archiveError(err error) error {
	if wire.CodeOf(err) != "" {
		return err
	}
	return wire.Invalid("not a whole tar archive: %v", err)
}

// archiveOrDisk tells a failure to write from a failure to read.
func archiveOrDisk(err error) error {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return errno
	}
	return archiveError(err)
}
