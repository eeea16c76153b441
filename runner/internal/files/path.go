package files

import (
	"encoding/base64"
	"strings"

	"sandglass/runner/internal/wire"
)

// Names are bytes that may hold anything but / and NUL: package path would clean what must stay as it is.

func join(dir, name string) string {
	if strings.HasSuffix(dir, "/") {
		return dir + name
	}
	return dir + "/" + name
}

func BaseName(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

// TrimSlashes keeps a path that ends in a link's name from being followed.
func TrimSlashes(path string) string {
	if trimmed := strings.TrimRight(path, "/"); trimmed != "" {
		return trimmed
	}
	return path
}

const MaxPathBytes = 4096

// requestPath takes a path out of a request, where base64 carries names that are not UTF-8.
func requestPath(text, encoded string) (string, error) {
	path := text
	if encoded != "" {
		raw, err := base64.StdEncoding.DecodeString(encoded)
		if err != nil {
			return "", wire.Invalid("path_base64 is not base64")
		}
		path = string(raw)
	}
	switch {
	case path == "":
		return "", wire.Invalid("path must not be empty")
	case strings.IndexByte(path, 0) >= 0:
		return "", wire.Invalid("path must not contain NUL")
	case len(path) > MaxPathBytes:
		return "", wire.Invalid("path must be at most %d bytes", MaxPathBytes)
	}
	return path, nil
}
