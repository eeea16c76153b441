// Package unpack is what the daemon runs, on the host and outside every sandbox, to unpack one layer of an image into a folder.
//
// The uncompressed tar of the layer comes on stdin, and one JSON line on stdout tells how it ended. The folder is empty at the
// start and belongs to nobody else meanwhile; who called gives it its name when all is well, and removes it when not.
package unpack

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"syscall"
)

const readBuffer = 1 << 20

// A result is what the caller learns. Code is one of: invalid (the layer's fault), too_large (a limit of the caller's), full (the
// disk), failed (anything else).
type result struct {
	Ok      bool   `json:"ok"`
	Code    string `json:"code,omitempty"`
	Entry   string `json:"entry,omitempty"`
	Issue   string `json:"issue,omitempty"`
	Entries int    `json:"entries"`
	Bytes   int64  `json:"bytes"`
	// Skipped counts entries that a sandbox has no use for: devices, which it gets from its runtime.
	Skipped int `json:"skipped"`
}

// Main unpacks one layer and returns the exit code.
func Main(args []string) int {
	l := &layer{}
	err := l.run(args)
	r := result{Ok: err == nil, Entries: l.entries, Bytes: l.bytes, Skipped: l.skipped}
	if err != nil {
		r.Code, r.Entry, r.Issue = describe(err)
	}
	if err := json.NewEncoder(os.Stdout).Encode(r); err != nil || !r.Ok {
		return 1
	}
	return 0
}

func (l *layer) run(args []string) error {
	folder, err := l.parse(args)
	if err != nil {
		return err
	}
	// Modes are those of the layer.
	syscall.Umask(0)
	if err := enter(folder); err != nil {
		return err
	}
	input := bufio.NewReaderSize(os.Stdin, readBuffer)
	if err := l.unpack(input); err != nil {
		return err
	}
	// What follows the archive's end mark is padding, and is part of what the caller checks.
	if _, err := io.Copy(io.Discard, input); err != nil {
		return fmt.Errorf("read stdin: %w", err)
	}
	return syncDisk()
}

// syncDisk waits until the folder is on its disk: once it has its name nobody looks at its files again, not after a power cut either.
// It does so for the whole disk, which is far less work than for each of many files.
func syncDisk() error {
	here, err := os.Open(".")
	if err != nil {
		return err
	}
	defer here.Close()
	if _, _, errno := syscall.Syscall(sysSyncfs, here.Fd(), 0, 0); errno != 0 {
		return fmt.Errorf("write the layer to the disk: %w", errno)
	}
	return nil
}

func (l *layer) parse(args []string) (string, error) {
	set := flag.NewFlagSet("runner unpack", flag.ContinueOnError)
	folder := set.String("folder", "", "empty folder to unpack into")
	userXattrs := set.Bool("user-xattrs", false, "mark opaque folders as an overlay of an ordinary user wants them")
	set.Int64Var(&l.maxBytes, "max-bytes", 0, "most bytes that all files together may have")
	set.IntVar(&l.maxEntries, "max-entries", 0, "most entries")
	set.Int64Var(&l.reserve, "reserve-bytes", 0, "bytes that stay free on the disk")
	if err := set.Parse(args); err != nil {
		return "", err
	}
	if *folder == "" || set.NArg() > 0 || l.maxBytes <= 0 || l.maxEntries <= 0 {
		return "", errors.New("usage: runner unpack --folder PATH --max-bytes N --max-entries N [--reserve-bytes N] [--user-xattrs]")
	}
	l.opaque = "trusted.overlay.opaque"
	if *userXattrs {
		l.opaque = "user.overlay.opaque"
	}
	return *folder, nil
}

// enter makes the folder this process's root.
//
// SECURITY: from here on no name in the layer, and no link that it makes, can lead out of the folder: the kernel resolves every one
// of them below it. Nothing of the layer is ever run.
func enter(folder string) error {
	if err := os.Chdir(folder); err != nil {
		return err
	}
	if err := syscall.Chroot("."); err != nil {
		return fmt.Errorf("make %s the root: %w", folder, err)
	}
	return nil
}

// A refusal is what is wrong with a layer.
type refusal struct{ code, entry, issue string }

func (r *refusal) Error() string { return r.entry + ": " + r.issue }

func invalid(entry, issue string) error { return &refusal{"invalid", entry, issue} }

func describe(err error) (code, entry, issue string) {
	var refused *refusal
	if errors.As(err, &refused) {
		return refused.code, refused.entry, refused.issue
	}
	var errno syscall.Errno
	if errors.As(err, &errno) && (errno == syscall.ENOSPC || errno == syscall.EDQUOT) {
		return "full", "", err.Error()
	}
	return "failed", "", err.Error()
}
