package unpack

import (
	"archive/tar"
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"path"
	"runtime/debug"
	"strings"
	"syscall"
	"time"
)

// Restack rewrites a layer as part of a tar that has every layer of an image in a folder of its own, with overlay whiteouts instead of those
// of a tar. It writes no files of the layer, so it needs no rights.
//
// It reads the layer twice, in two processes: `--plan FILE --max-entries N` writes a plan, and `--folder NAME --with FILE` writes the part of
// the tar to stdout. The caller adds the end of the tar after the last layer. The result is the last line of stderr.
func Restack(args []string) int {
	err := restack(args)
	r := result{Ok: err == nil}
	if err != nil {
		r.Code, r.Entry, r.Issue = describe(err)
	}
	if err := json.NewEncoder(os.Stderr).Encode(r); err != nil || !r.Ok {
		return 1
	}
	return 0
}

// Address space of this process. A plan of two million files needs a quarter of it.
const memoryBytes = 2 << 30

// limitMemory is the last bound. SECURITY: a layer that needs more memory than a plan should ends this process and no other.
func limitMemory() error {
	debug.SetGCPercent(50)
	limit := &syscall.Rlimit{}
	if err := syscall.Getrlimit(syscall.RLIMIT_AS, limit); err != nil {
		return fmt.Errorf("limit memory: %w", err)
	}
	if limit.Max < memoryBytes {
		return nil
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_AS, &syscall.Rlimit{Cur: memoryBytes, Max: memoryBytes}); err != nil {
		return fmt.Errorf("limit memory: %w", err)
	}
	return nil
}

func restack(args []string) error {
	if err := limitMemory(); err != nil {
		return err
	}
	set := flag.NewFlagSet("launcher restack", flag.ContinueOnError)
	planFile := set.String("plan", "", "file to write the plan to")
	maxEntries := set.Int("max-entries", 0, "most entries, including implied folders")
	folder := set.String("folder", "", "folder of the layer")
	with := set.String("with", "", "file with the plan")
	if err := set.Parse(args); err != nil {
		return err
	}
	input := bufio.NewReaderSize(os.Stdin, readBuffer)
	switch {
	case *planFile != "" && *maxEntries > 0:
		p, err := newPlanner(*maxEntries).read(input)
		if err != nil {
			return err
		}
		if err := writePlan(*planFile, p); err != nil {
			return err
		}
	case *folder != "" && *with != "":
		if err := writeLayer(input, *folder, *with); err != nil {
			return err
		}
	default:
		return errors.New("usage: launcher restack --plan FILE --max-entries N, or --folder NAME --with FILE")
	}
	// Padding after the end of the archive belongs to the layer's digest, which the caller computes.
	if _, err := io.Copy(io.Discard, input); err != nil {
		return fmt.Errorf("read stdin: %w", err)
	}
	return nil
}

func writePlan(file string, p *plan) error {
	data, err := json.Marshal(p)
	if err != nil {
		return err
	}
	return os.WriteFile(file, data, 0o600)
}

func writeLayer(input io.Reader, folder, planFile string) error {
	data, err := os.ReadFile(planFile)
	if err != nil {
		return err
	}
	p := &plan{}
	if err := json.Unmarshal(data, p); err != nil {
		return fmt.Errorf("parse plan: %w", err)
	}
	buffered := bufio.NewWriterSize(os.Stdout, readBuffer)
	out := tar.NewWriter(buffered)
	if err := p.writeDirs(out, folder); err != nil {
		return err
	}
	if err := p.writeEntries(out, tar.NewReader(input), folder); err != nil {
		return err
	}
	if err := out.Flush(); err != nil {
		return err
	}
	return buffered.Flush()
}

func (p *plan) writeDirs(out *tar.Writer, folder string) error {
	for _, d := range p.Dirs {
		records := d.Xattrs
		if d.Opaque {
			if records == nil {
				records = map[string]string{}
			}
			records[xattrPax+"trusted.overlay.opaque"] = "y"
		}
		header := &tar.Header{Typeflag: tar.TypeDir, Name: inFolder(folder, d.Name), Mode: d.Mode, Uid: d.UID, Gid: d.GID,
			ModTime: time.Unix(d.Mtime, 0), PAXRecords: records, Format: tar.FormatPAX}
		if err := writeHeader(out, header); err != nil {
			return err
		}
	}
	for _, name := range p.Whiteouts {
		if err := writeHeader(out, &tar.Header{Typeflag: tar.TypeChar, Name: inFolder(folder, name), Format: tar.FormatPAX}); err != nil {
			return err
		}
	}
	return nil
}

func (p *plan) writeEntries(out *tar.Writer, in *tar.Reader, folder string) error {
	for number := 0; ; number++ {
		header, err := in.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return invalid("", "not a whole tar archive: "+err.Error())
		}
		if p.Dropped[number] {
			continue
		}
		name, ok := p.Names[number]
		if !ok {
			if name, err = safeName(header.Name); err != nil {
				return err
			}
		}
		fresh := &tar.Header{Typeflag: header.Typeflag, Name: inFolder(folder, name), Mode: header.Mode & 0o7777, Uid: header.Uid, Gid: header.Gid,
			ModTime: header.ModTime, PAXRecords: harmless(header), Format: tar.FormatPAX, Linkname: header.Linkname}
		switch header.Typeflag {
		case tar.TypeLink:
			fresh.Linkname = inFolder(folder, p.Links[number])
		case tar.TypeSymlink, tar.TypeFifo:
		default:
			fresh.Typeflag, fresh.Size, fresh.Linkname = tar.TypeReg, header.Size, ""
		}
		if err := writeHeader(out, fresh); err != nil {
			return err
		}
		if fresh.Typeflag == tar.TypeReg {
			if _, err := io.Copy(out, in); err != nil {
				return fmt.Errorf("write %s: %w", header.Name, err)
			}
		}
	}
}

func writeHeader(out *tar.Writer, header *tar.Header) error {
	header.ModTime = squashfsTime(header.ModTime)
	if header.Uid < 0 || header.Uid > maxID || header.Gid < 0 || header.Gid > maxID {
		return invalid(header.Name, "its owner is not a valid id")
	}
	if err := out.WriteHeader(header); err != nil {
		return invalid(header.Name, err.Error())
	}
	return nil
}

// squashfsTime returns the nearest time that squashfs can store: whole seconds since 1970 in 32 bits.
func squashfsTime(t time.Time) time.Time {
	seconds := t.Unix()
	if seconds < 0 {
		seconds = 0
	}
	if seconds > math.MaxUint32 {
		seconds = math.MaxUint32
	}
	return time.Unix(seconds, 0)
}

func inFolder(folder, name string) string {
	return strings.TrimPrefix(path.Join("/", folder, name), "/")
}
