package dns

import (
	"testing"
)

// FuzzQueries: whatever a program sends, it gets a valid answer of bounded size or none, and only names of hosts are
// looked up.
func FuzzQueries(f *testing.F) {
	for _, name := range []string{"", "example.com", "LocalHost", "1.0.0.127.in-addr.arpa", "exa mple", "box"} {
		for _, kind := range []uint16{typeA, typeAAAA, typePTR, typeHTTPS, typeANY} {
			f.Add(question(name, kind))
		}
		f.Add(withOptions(question(name, typeA), 0, 1, 2, 3))
		f.Add(withOptions(question(name, typeA), 9))
	}
	f.Add([]byte{})
	f.Add(append(question("a", typeA)[:headerBytes], 0xc0, headerBytes, 0, 1, 0, 1))
	f.Add(append(question("a", typeA)[:headerBytes], 0x3f, 1, 2, 3))
	s := NewServer("box", func(name string) Answer {
		if name == "" || len(name) > 253 {
			panic("a name of invalid length was looked up")
		}
		for _, c := range []byte(name) {
			if c != '.' && !isHostByte(c) || 'A' <= c && c <= 'Z' {
				panic("a name with other characters was looked up")
			}
		}
		return Answer{Kind: Missing}
	})
	f.Fuzz(func(t *testing.T, packet []byte) {
		q, code := parse(packet)
		if q == nil {
			return
		}
		raw := s.local(q, code)
		if raw == nil {
			raw = s.lookUp(q)
		}
		if got := decode(t, raw); got.id != uint16(packet[0])<<8|uint16(packet[1]) {
			t.Errorf("another id: %+v", got)
		}
	})
}
