package unpack

import (
	"errors"
	"path"
	"strings"
	"syscall"
)

const (
	maxPathBytes = 4095 // of the target of a link
	maxNameBytes = 255
	maxLinks     = 40
)

// safeName returns the absolute path of an entry in the layer, or an error for an invalid name. A leading slash means the layer's root.
func safeName(name string) (string, error) {
	switch {
	case name == "":
		return "", invalid(name, "it has no name")
	case strings.IndexByte(name, 0) >= 0:
		return "", invalid(name, "its name contains NUL")
	}
	for _, part := range strings.Split(name, "/") {
		if part == ".." {
			return "", invalid(name, "its name contains ..")
		}
		if len(part) > maxNameBytes {
			return "", invalid(name, "a part of its name is too long")
		}
	}
	cleaned := path.Clean("/" + name)
	return cleaned, checkLength(name, cleaned)
}

// explain turns errors that the layer causes into refusals. Other errors are the host's.
func explain(entry string, err error) error {
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		return err
	}
	switch errno {
	case syscall.ELOOP:
		return invalid(entry, "its path leads through too many links")
	case syscall.ENOTDIR:
		return invalid(entry, "its path leads through something that is not a folder")
	case syscall.ENAMETOOLONG:
		return invalid(entry, "its name is too long")
	}
	return err
}
