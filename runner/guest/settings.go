package guest

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
)

const settingsFile = "/settings.json"

// Settings are the same for every machine that this initramfs boots.
type settings struct {
	Masked    []string `json:"masked"`
	ReadOnly  []string `json:"read_only"`
	Terminals int      `json:"terminals"`
	Seccomp   []byte   `json:"seccomp"` // a classic BPF program
}

// Facts are what the kernel's command line tells: they belong to a snapshot, and are the same for every session that goes on from it.
type facts struct {
	layers int      // folders 0, 1, … of the image's disk, lowest first; 0 where the disk itself is the one layer
	tmpMb  int      // size of /tmp
	load   []string // sets of drivers beside the usual ones
	trial  bool     // nothing but to say that the machine boots
	// readAhead: a snapshot is made of this machine, which is to have in memory what a first shell reads.
	readAhead bool
}

func readSettings() (*settings, error) {
	content, err := os.ReadFile(settingsFile)
	if err != nil {
		return nil, fmt.Errorf("read settings: %w", err)
	}
	s := &settings{}
	if err := json.Unmarshal(content, s); err != nil {
		return nil, fmt.Errorf("parse settings: %w", err)
	}
	return s, nil
}

func readFacts(args []string) (*facts, error) {
	f := &facts{}
	set := flag.NewFlagSet(Program, flag.ContinueOnError)
	set.IntVar(&f.layers, "layers", 0, "")
	set.IntVar(&f.tmpMb, "tmp-mb", 64, "")
	set.BoolVar(&f.trial, "trial", false, "")
	set.BoolVar(&f.readAhead, "read-ahead", false, "")
	load := set.String("load", "", "")
	if err := set.Parse(args); err != nil {
		return nil, fmt.Errorf("read the kernel's command line: %w", err)
	}
	f.load = strings.FieldsFunc(*load, func(r rune) bool { return r == ',' })
	return f, nil
}

// nested says whether the session may have virtual machines of its own.
func (f *facts) nested() bool {
	for _, set := range f.load {
		if strings.HasPrefix(set, "kvm-") {
			return true
		}
	}
	return false
}
