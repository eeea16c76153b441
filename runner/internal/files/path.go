package files

import (
	"encoding/base64"
	"strings"

	"sandglass/runner/internal/wire"
)

// A name may contain any byte but / and NUL. Package path is not used, because it would clean paths that must stay as
// they are.

func join(dir, name string) string {
	if strings.HasSuffix(dir, "/") {
		return dir + name
	}
	return dir + "/" + name
}

func BaseName(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

// TrimSlashes removes trailing slashes, because the kernel follows a link whose name ends in a slash.
func TrimSlashes(path string) string {
	if trimmed := strings.TrimRight(path, "/"); trimmed != "" {
		return trimmed
	}
	return path
}

// MaxPathBytes is the longest path of a request.
const MaxPathBytes = 4096

// requestPath returns the path of a request, which may be base64 if it is not UTF-8.
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
