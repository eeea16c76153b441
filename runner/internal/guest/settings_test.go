package guest

import (
	"errors"
	"os"
	"reflect"
	"strings"
	"testing"

	"sandglass/runner/internal/testns"
)

func TestBootOptionsComeFromTheKernelsCommandLine(t *testing.T) {
	got, err := parseBootOptions([]string{"--layers", "3", "--tmp-mb=128", "--packages", "a,b", "--load", "9p,kvm-intel", "--read-ahead"})
	want := &bootOptions{layers: 3, tmpMb: 128, load: []string{"9p", "kvm-intel"}, packages: []string{"a", "b"}, readAhead: true}
	if err != nil || !reflect.DeepEqual(got, want) || !got.nested() {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := parseBootOptions(nil); err != nil || got.tmpMb != 64 || len(got.load) != 0 || len(got.packages) != 0 || got.nested() || got.trial {
		t.Errorf("without options: %+v, %v", got, err)
	}
	for _, args := range [][]string{{"--layers", "x"}, {"--no-such-option"}} {
		if _, err := parseBootOptions(args); err == nil {
			t.Errorf("%v was accepted", args)
		}
	}
}

func TestModulesAreLoadedInTheOrderOfTheirLists(t *testing.T) {
	dir := t.TempDir()
	testns.File(t, dir+"/base.list", "virtio\nvirtio_blk\next4\n")
	testns.File(t, dir+"/9p.list", "9pnet 9p")
	got, err := moduleFiles(dir, []string{"9p"})
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, name := range []string{"virtio", "virtio_blk", "ext4", "9pnet", "9p"} {
		want = append(want, dir+"/"+name+".ko")
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v", got)
	}
	if _, err := moduleFiles(dir, []string{"none"}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a set that does not exist: %v", err)
	}
	// The name of a set comes from the command line, and is no path.
	if _, err := moduleFiles(dir, []string{"../9p"}); err != nil {
		t.Errorf("a set is looked up by its last part: %v", err)
	}
}

func TestTooLittleEntropyIsRefused(t *testing.T) {
	if err := addEntropy(make([]byte, 31)); err == nil || !strings.Contains(err.Error(), "too few") {
		t.Errorf("got %v", err)
	}
}
