package wire

import (
	"encoding/base64"
	"strings"
	"unicode/utf8"
)

// ExactBase64 is the base64 of what JSON text cannot carry, else empty.
func ExactBase64(text string) string {
	if utf8.ValidString(text) {
		return ""
	}
	return base64.StdEncoding.EncodeToString([]byte(text))
}

const (
	LowerCase = "abcdefghijklmnopqrstuvwxyz"
	Digits    = "0123456789"
	Letters   = LowerCase + "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
)

// IsName holds for at most max bytes, the first of them in anywhere, the others in anywhere or later. It is no regular
// expression: compiling two of them took half of the time that the runner needs to start.
func IsName(name string, max int, anywhere, later string) bool {
	if name == "" || len(name) > max || strings.IndexByte(anywhere, name[0]) < 0 {
		return false
	}
	return strings.Trim(name, anywhere+later) == ""
}

// Text makes bytes from the sandbox fit for a JSON string.
func Text(s string) string {
	return strings.ToValidUTF8(s, "\uFFFD")
}

// AddExact adds name_base64 when the value cannot be said in a JSON string.
func AddExact(f Fields, name, value string) {
	if encoded := ExactBase64(value); encoded != "" {
		f[name+"_base64"] = encoded
	}
}
