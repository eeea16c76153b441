// Package unpack reads layers of images: it unpacks a layer into a folder, rewrites a layer as part of a disk (restack), and finds device
// files in a layer.
//
// The uncompressed tar of the layer is stdin, and one JSON line is the result (runner/LAUNCHER.md). The folder is empty at the start and no
// other process uses it. The caller renames it into place after a success and removes it after a failure.
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

// Codes of a failure.
const (
	codeInvalid       = "invalid"             // the layer is at fault
	codeManyEntries   = "too_many_entries"    // more than the caller allows
	codeManyBytes     = "too_many_bytes"      // more than the caller allows
	codeManyNameBytes = "too_many_name_bytes" // more bytes of names and attributes than restack can remember
	codeFull          = "full"                // the disk is full
	codeFailed        = "failed"              // anything else
)

// A result says how the work ended. Entry is the entry at fault; for Devices, the first device file.
type result struct {
	Ok      bool   `json:"ok"`
	Code    string `json:"code,omitempty"`
	Entry   string `json:"entry,omitempty"`
	Issue   string `json:"issue,omitempty"`
	Entries int    `json:"entries"`
	Bytes   int64  `json:"bytes"`
	// Skipped counts entries that are left out: devices, which a sandbox gets from its runtime.
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
	// Files get exactly the modes of the layer.
	syscall.Umask(0)
	if err := enter(folder); err != nil {
		return err
	}
	input := bufio.NewReaderSize(os.Stdin, readBuffer)
	if err := l.unpack(input); err != nil {
		return err
	}
	// Padding after the end of the archive belongs to the layer's digest, which the caller computes.
	if _, err := io.Copy(io.Discard, input); err != nil {
		return fmt.Errorf("read stdin: %w", err)
	}
	return syncDisk()
}

// syncDisk waits until the folder is written to its disk, because nobody checks its files again once it has its name, not even after a power
// failure. It syncs the whole filesystem, which is much faster than syncing many files one by one.
func syncDisk() error {
	here, err := os.Open(".")
	if err != nil {
		return err
	}
	defer here.Close()
	if _, _, errno := syscall.Syscall(sysSyncfs, here.Fd(), 0, 0); errno != 0 {
		return fmt.Errorf("sync the disk: %w", errno)
	}
	return nil
}

func (l *layer) parse(args []string) (string, error) {
	set := flag.NewFlagSet("launcher unpack", flag.ContinueOnError)
	folder := set.String("folder", "", "empty folder to unpack into")
	userXattrs := set.Bool("user-xattrs", false, "mark opaque folders with user.overlay attributes")
	set.Int64Var(&l.maxBytes, "max-bytes", 0, "most bytes of all files together")
	set.IntVar(&l.maxEntries, "max-entries", 0, "most entries")
	set.Int64Var(&l.reserve, "reserve-bytes", 0, "bytes to leave free on the disk")
	if err := set.Parse(args); err != nil {
		return "", err
	}
	if *folder == "" || set.NArg() > 0 || l.maxBytes <= 0 || l.maxEntries <= 0 {
		return "", errors.New("usage: launcher unpack --folder PATH --max-bytes N --max-entries N [--reserve-bytes N] [--user-xattrs]")
	}
	l.opaque = "trusted.overlay.opaque"
	if *userXattrs {
		l.opaque = "user.overlay.opaque"
	}
	return *folder, nil
}

// enter makes the folder the root of this process.
//
// SECURITY: from here on no name in the layer and no link from it can lead out of the folder, because the kernel resolves all of them below
// it. No program of the layer is ever run.
func enter(folder string) error {
	if err := os.Chdir(folder); err != nil {
		return err
	}
	if err := syscall.Chroot("."); err != nil {
		return fmt.Errorf("make %s the root: %w", folder, err)
	}
	return nil
}

// A refusal is an error that the layer or a limit causes.
type refusal struct{ code, entry, issue string }

func (r *refusal) Error() string { return r.entry + ": " + r.issue }

func invalid(entry, issue string) error { return &refusal{codeInvalid, entry, issue} }

func describe(err error) (code, entry, issue string) {
	var refused *refusal
	if errors.As(err, &refused) {
		return refused.code, refused.entry, refused.issue
	}
	var errno syscall.Errno
	if errors.As(err, &errno) && (errno == syscall.ENOSPC || errno == syscall.EDQUOT) {
		return codeFull, "", err.Error()
	}
	return codeFailed, "", err.Error()
}
