package wire

import (
	"encoding/base64"
	"strings"
	"unicode/utf8"
)

// ExactBase64 is the base64 of a text that is not valid UTF-8; empty for other texts.
func ExactBase64(text string) string {
	if utf8.ValidString(text) {
		return ""
	}
	return base64.StdEncoding.EncodeToString([]byte(text))
}

// Text replaces the bytes of s that are not UTF-8, so that it fits a JSON string.
func Text(s string) string {
	return strings.ToValidUTF8(s, "\uFFFD")
}

// AddExact adds the field <name>_base64 if the value is not valid UTF-8.
func AddExact(f Fields, name, value string) {
	if encoded := ExactBase64(value); encoded != "" {
		f[name+"_base64"] = encoded
	}
}

// Sets of characters for IsName.
const (
	LowerCase = "abcdefghijklmnopqrstuvwxyz"
	Digits    = "0123456789"
	Letters   = LowerCase + "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
)

// IsName tells whether a name has 1 to max bytes, the first of them in anywhere and the others in anywhere or later.
// It uses no regular expression: compiling two of them took half of the time that the runner needs to start.
func IsName(name string, max int, anywhere, later string) bool {
	if name == "" || len(name) > max || strings.IndexByte(anywhere, name[0]) < 0 {
		return false
	}
	return strings.Trim(name, anywhere+later) == ""
}
