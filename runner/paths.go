package main

import "strings"

// Names are bytes that may hold anything but / and NUL: package path would clean what must stay as it is.

func join(dir, name string) string {
	if strings.HasSuffix(dir, "/") {
		return dir + name
	}
	return dir + "/" + name
}

func baseName(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

// trimSlashes keeps a path that ends in a link's name from being followed.
func trimSlashes(path string) string {
	if trimmed := strings.TrimRight(path, "/"); trimmed != "" {
		return trimmed
	}
	return path
}
