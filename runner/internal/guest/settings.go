package guest

import (
	"flag"
	"fmt"
	"os"
	"strings"

	"sandglass/runner/internal/strictjson"
)

const settingsFile = "/settings.json"

// settings come with the initramfs. They are the same for every machine of this daemon.
type settings struct {
	Masked    []string `json:"masked"`
	ReadOnly  []string `json:"read_only"`
	Terminals int      `json:"terminals"`
	Seccomp   []byte   `json:"seccomp"` // seccomp filter, a classic BPF program
}

// bootOptions come with the kernel's command line. All sessions that start from one snapshot have the same ones.
type bootOptions struct {
	layers int      // number of folders 0, 1, … on the image's disk, the lowest layer first; 0 if the disk itself is the only layer
	tmpMb  int      // size of /tmp
	load   []string // sets of drivers beside the base set
	// packages are names of folders with programs, each on a disk of its own, that sessions see below /opt/sandglass.
	packages []string
	trial    bool // only report that the machine boots, and power off
	// readAhead: a snapshot of this machine will be taken. It should have the files that a first shell reads in memory.
	readAhead bool
}

func readSettings() (*settings, error) {
	content, err := os.ReadFile(settingsFile)
	if err != nil {
		return nil, fmt.Errorf("read settings: %w", err)
	}
	s := &settings{}
	if err := strictjson.Decode(content, s); err != nil {
		return nil, fmt.Errorf("parse settings: %w", err)
	}
	return s, nil
}

func parseBootOptions(args []string) (*bootOptions, error) {
	f := &bootOptions{}
	set := flag.NewFlagSet(Program, flag.ContinueOnError)
	set.IntVar(&f.layers, "layers", 0, "")
	set.IntVar(&f.tmpMb, "tmp-mb", 64, "")
	set.BoolVar(&f.trial, "trial", false, "")
	set.BoolVar(&f.readAhead, "read-ahead", false, "")
	load := set.String("load", "", "")
	packages := set.String("packages", "", "")
	if err := set.Parse(args); err != nil {
		return nil, fmt.Errorf("parse the kernel's command line: %w", err)
	}
	f.load, f.packages = splitList(*load), splitList(*packages)
	return f, nil
}

func splitList(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' })
}

// nested tells whether the session may run virtual machines of its own.
func (f *bootOptions) nested() bool {
	for _, set := range f.load {
		if strings.HasPrefix(set, "kvm-") {
			return true
		}
	}
	return false
}
