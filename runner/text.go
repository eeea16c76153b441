package main

import (
	"encoding/base64"
	"strings"
	"unicode/utf8"
)

// text makes bytes from the sandbox fit for a JSON string.
func text(s string) string {
	return strings.ToValidUTF8(s, "\uFFFD")
}

// addExact adds name_base64 when the value cannot be said in a JSON string.
func addExact(f fields, name, value string) {
	if !utf8.ValidString(value) {
		f[name+"_base64"] = base64.StdEncoding.EncodeToString([]byte(value))
	}
}
