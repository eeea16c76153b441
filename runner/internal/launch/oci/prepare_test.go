package oci

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"sandglass/runner/internal/launch/disk"
	"sandglass/runner/internal/launch/userns"
	"sandglass/runner/internal/testns"
)

func TestAPreparationIsUndoneWhenTheDaemonIsGone(t *testing.T) {
	dir := t.TempDir()
	home := testns.File(t, dir+"/home", "")
	p := &prepareJob{Home: []string{home}, Disk: &disk.Spare{Image: testns.File(t, dir+"/spare", "")}}
	p.undo()
	if _, err := os.Stat(p.Disk.Image); !os.IsNotExist(err) {
		t.Errorf("the spare disk is left: %v", err)
	}
	if got := testns.Content(t, home); got != strconv.Itoa(os.Getpid()) {
		t.Errorf("this process went home as %q", got)
	}
}

func TestAPreparedUserNamespaceIsUsedOnlyForItsIDs(t *testing.T) {
	testns.Root(t)
	file, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	ids := []userns.Range{{Inside: 0, Outside: 300_000, Size: 10}}
	p := &prepareJob{IDs: ids, users: file}
	if got, err := p.userNamespace([]userns.Range{{Inside: 0, Outside: 300_000, Size: 10}}); err != nil || got != file {
		t.Errorf("the prepared one was not used: %v, %v", got, err)
	}
	if got, err := p.userNamespace(nil); err == nil || got == file {
		t.Errorf("it was used for other ids: %v, %v", got, err)
	}
}

func TestAProbeSaysWhyAFeatureIsMissing(t *testing.T) {
	testns.Private(t)
	got := probe(&probeJob{Folder: "/none"})
	if !strings.Contains(got.Mounts, "/none") || !strings.Contains(got.Overlay, "/none") {
		t.Errorf("with a folder that does not exist: %+v", got)
	}
	if got := probe(&probeJob{Folder: testns.Dir(t, testns.Folder(t)+"/empty")}); got.Mounts != "" {
		t.Errorf("as root: %+v", got)
	}
}
