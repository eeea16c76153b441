package unpack

import (
	"archive/tar"
	"bufio"
	"encoding/json"
	"io"
	"os"
)

// Devices tells, as one JSON line, the first device file in the layer on stdin, if there is one.
//
// SECURITY: readers of tars differ in what they take for an entry. This is the one that Docker's engine has.
func Devices() int {
	name, err := firstDevice(bufio.NewReaderSize(os.Stdin, readBuffer))
	r := result{Ok: err == nil, Entry: name}
	if err != nil {
		r.Code, r.Issue = "invalid", err.Error()
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
	// The caller checks the whole of it.
	_, err = io.Copy(io.Discard, input)
	return name, err
}
