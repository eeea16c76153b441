package unpack

import (
	"archive/tar"
	"bufio"
	"encoding/json"
	"io"
	"os"
)

// Devices prints the first device file in the layer on stdin, if there is one, as the entry of a result.
//
// SECURITY: tar readers differ in what they see as an entry. Docker's engine uses this one (archive/tar).
func Devices() int {
	name, err := firstDevice(bufio.NewReaderSize(os.Stdin, readBuffer))
	r := result{Ok: err == nil, Entry: name}
	if err != nil {
		r.Code, r.Issue = codeInvalid, err.Error()
	}
	if err := json.NewEncoder(os.Stdout).Encode(r); err != nil || !r.Ok {
		return 1
	}
	return 0
}

func firstDevice(input io.Reader) (name string, err error) {
	entries := tar.NewReader(input)
	for {
		header, err := entries.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return "", err
		}
		if name == "" && (header.Typeflag == tar.TypeChar || header.Typeflag == tar.TypeBlock) {
			name = header.Name
		}
	}
	// The rest belongs to the layer's digest, which the caller computes.
	_, err = io.Copy(io.Discard, input)
	return name, err
}
