package unpack

import (
	"archive/tar"
	"bytes"
	"testing"
)

func TestADeviceIsFoundWhereverItIs(t *testing.T) {
	device := layerOf(t, entry{name: "console", kind: tar.TypeChar})
	// A link that claims to have content: some readers skip as much, and with it what really comes next.
	hidden := layerOf(t, symlink("lnk", "etc"))
	copy(hidden[124:136], "00000001000\x00")
	checksum(hidden)
	hidden = append(hidden[:512], device...)
	for name, layer := range map[string][]byte{"plain": device, "behind a link with a size": hidden} {
		if found, err := firstDevice(bytes.NewReader(layer)); err != nil || found != "console" {
			t.Errorf("%s: %q, %v", name, found, err)
		}
	}
	if found, err := firstDevice(bytes.NewReader(layerOf(t, file("console", "")))); err != nil || found != "" {
		t.Errorf("a file: %q, %v", found, err)
	}
	if _, err := firstDevice(bytes.NewReader([]byte("no tar at all, but long enough for a header"))); err == nil {
		t.Error("what is no tar was read")
	}
}

// checksum makes the first header right again.
func checksum(layer []byte) {
	copy(layer[148:156], "        ")
	sum := 0
	for _, b := range layer[:512] {
		sum += int(b)
	}
	digits := []byte("000000\x00 ")
	for i := 5; i >= 0; i-- {
		digits[i] = byte('0' + sum%8)
		sum /= 8
	}
	copy(layer[148:156], digits)
}
