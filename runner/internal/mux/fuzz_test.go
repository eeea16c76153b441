package mux

import (
	"bufio"
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"sandglass/runner/internal/wire"
)

// FuzzMux: whatever bytes arrive, the carrier ends without a panic and no stream buffers more than its credit.
func FuzzMux(f *testing.F) {
	files, err := filepath.Glob("../../testdata/mux-*.bin")
	if err != nil || len(files) == 0 {
		f.Fatalf("no golden files: %v", err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add(append(EncodeFrame(Open, 1, nil), EncodeFrame(Data, 1, []byte("x"))...))
	f.Fuzz(func(t *testing.T, data []byte) {
		w := discard{}
		Serve(bufio.NewReader(bytes.NewReader(data)), w, func(c wire.Conn, in *wire.Reader, out *wire.Writer) {
			s := c.(*stream)
			for {
				line, err := in.Line()
				if err != nil {
					return
				}
				s.m.mu.Lock()
				held := len(s.in)
				s.m.mu.Unlock()
				if held > InitialCredit || len(line) > wire.MaxLineBytes {
					t.Errorf("%d bytes held", held)
				}
				out.Message("echo", "", nil, line)
			}
		})
	})
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

func (discard) Close() error { return nil }
