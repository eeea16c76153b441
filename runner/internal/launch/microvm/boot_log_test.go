package microvm

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTheBootLogHasTheBeginningAndTheEndOfALongOutput(t *testing.T) {
	path := filepath.Join(t.TempDir(), "boot.log")
	log, err := openBootLog(path, 1000)
	if err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		defer w.Close()
		w.WriteString("first words\n")
		flood := bytes.Repeat([]byte("x"), 1<<20)
		for i := 0; i < 20; i++ {
			w.Write(flood)
		}
		w.WriteString("\nlast words\n")
	}()
	log.copy(r)
	log.close("QEMU ended with status 0")
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text := string(content)
	if len(text) > 3000 || !strings.HasPrefix(text, "first words\n") || !strings.HasSuffix(text, "\nlast words\n\nQEMU ended with status 0\n") ||
		!strings.Contains(text, "bytes left out") {
		t.Errorf("%d bytes: %q … %q", len(text), text[:50], text[len(text)-100:])
	}
}

func TestTheBootLogHasAllOfAShortOutput(t *testing.T) {
	path := filepath.Join(t.TempDir(), "boot.log")
	log, err := openBootLog(path, 1000)
	if err != nil {
		t.Fatal(err)
	}
	log.add([]byte("hello\n"))
	log.close("end")
	if content, _ := os.ReadFile(path); string(content) != "hello\n\nend\n" {
		t.Errorf("%q", content)
	}
}
