package cgroup

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"sandglass/runner/internal/testns"
)

// The tests use a temporary folder in place of a cgroup filesystem. Its files are made beforehand, as the kernel does.

func TestEnterMakesTheGroupEnablesItsControllersAndJoins(t *testing.T) {
	root := t.TempDir()
	g := Group{Dir: root + "/daemon/machine", Enable: "+memory", Join: true}
	testns.File(t, testns.Dir(t, root+"/daemon")+"/"+subtreeControl, "")
	testns.File(t, testns.Dir(t, g.Dir)+"/cgroup.procs", "")
	if err := Enter([]Group{g, {Dir: root + "/other"}}); err != nil {
		t.Fatal(err)
	}
	if got := testns.Content(t, root+"/daemon/"+subtreeControl); got != "+memory" {
		t.Errorf("enabled %q", got)
	}
	if got := testns.Content(t, g.Dir+"/cgroup.procs"); got != strconv.Itoa(os.Getpid()) {
		t.Errorf("joined by %q", got)
	}
	if _, err := os.Stat(root + "/other/cgroup.procs"); !os.IsNotExist(err) {
		t.Errorf("joined a group that is not marked: %v", err)
	}
}

func TestControllersAreEnabledInTheGrandparentIfTheParentRefuses(t *testing.T) {
	root := t.TempDir()
	parent := testns.Dir(t, root+"/daemon")
	// A folder in place of the file: every write fails, as in a parent whose own parent has the controllers disabled.
	testns.Dir(t, parent+"/"+subtreeControl)
	testns.File(t, root+"/"+subtreeControl, "")
	g := &Group{Dir: parent + "/machine", Enable: "+pids"}
	if err := g.create(); err == nil || !strings.Contains(err.Error(), "enable controllers") {
		t.Errorf("got %v", err)
	}
	if got := testns.Content(t, root+"/"+subtreeControl); got != "+pids" {
		t.Errorf("the grandparent enables %q", got)
	}
}

func TestALimitThatTheKernelDoesNotKeepIsAnError(t *testing.T) {
	dir := t.TempDir()
	if err := os.Symlink("/dev/null", dir+"/memory.max"); err != nil {
		t.Fatal(err)
	}
	testns.File(t, dir+"/pids.max", "max\n")
	for name, c := range map[string]struct {
		group Group
		want  string
	}{
		"kept":         {Group{Dir: dir, Settings: []Setting{{"pids.max", "96"}}}, ""},
		"not kept":     {Group{Dir: dir, Settings: []Setting{{"memory.max", "1000"}}}, "after 1000 was written"},
		"no such file": {Group{Dir: dir + "/none", Settings: []Setting{{"pids.max", "96"}}}, "set limit"},
	} {
		err := Limit([]Group{c.group})
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestDeviceRulesAreReadBack(t *testing.T) {
	dir := t.TempDir()
	rules := []string{"c 1:3 rw", "c 1:5 rw"}
	g := Group{Dir: dir, Devices: rules}
	for _, file := range []string{"devices.deny", "devices.allow"} {
		testns.File(t, dir+"/"+file, "")
	}
	for name, c := range map[string]struct{ list, want string }{
		"as written":  {"c 1:3 rw\nc 1:5 rw\n", ""},
		"one more":    {"c 1:3 rw\nc 1:5 rw\nc 1:1 rw\n", "allows"},
		"all allowed": {"a *:* rwm\n", "allows"},
	} {
		testns.File(t, dir+"/devices.list", c.list)
		err := Limit([]Group{g})
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := testns.Content(t, dir+"/devices.deny"); got != "a" {
		t.Errorf("denied %q", got)
	}
}

func TestCheckFindsAProcessInAndBelowItsGroupOnly(t *testing.T) {
	line := strings.SplitN(strings.SplitN(testns.Content(t, "/proc/self/cgroup"), "\n", 2)[0], ":", 3)
	own := line[2]
	for name, isIn := range map[string]bool{own: true, strings.TrimSuffix(filepath.Dir(own), "/"): true, own + "x": false, "/no/such/group": false} {
		if err := Check([]Group{{Name: name}}, os.Getpid()); (err == nil) != isIn {
			t.Errorf("%q: %v", name, err)
		}
	}
	if err := Check(nil, 4_194_303); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no process: %v", err)
	}
}

func TestMembersAreThoseOfTheGroupAndBelow(t *testing.T) {
	dir := t.TempDir()
	testns.File(t, dir+"/cgroup.procs", "11\n12\n")
	testns.File(t, testns.Dir(t, dir+"/a/b")+"/cgroup.procs", "14\n")
	testns.File(t, dir+"/a/cgroup.procs", "13\n0\nx\n")
	if got, want := Members(dir), []int{11, 12, 13, 14}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := Members(dir + "/none"); got != nil {
		t.Errorf("a group that does not exist has %v", got)
	}
}

func TestRemoveKillsTheMembersAndThaws(t *testing.T) {
	cmd := exec.Command("sleep", "600")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	defer cmd.Process.Kill()
	dir := testns.Dir(t, t.TempDir()+"/daemon/machine")
	testns.File(t, dir+"/cgroup.procs", fmt.Sprint(cmd.Process.Pid))
	// SECURITY: a process that has left the group, or whose pid was given to another, is not killed.
	(&Group{Dir: dir, Name: "/another/group"}).Kill()
	select {
	case <-ended:
		t.Fatal("a process of another group was killed")
	case <-time.After(20 * time.Millisecond):
	}
	testns.File(t, dir+"/cgroup.freeze", "1")
	g := Group{Dir: dir, Thaw: &Setting{"cgroup.freeze", "0"}} // an empty name is that of every process
	g.Kill()
	if err := <-ended; err == nil {
		t.Error("it was not killed")
	}
	if err := Thaw([]Group{g}); err != nil || testns.Content(t, dir+"/cgroup.freeze") != "0" {
		t.Errorf("not thawed: %v", err)
	}
	for _, file := range []string{"cgroup.procs", "cgroup.freeze"} {
		os.Remove(filepath.Join(dir, file))
	}
	if err := RemoveTree(dir); err != nil {
		t.Fatal(err)
	}
	if err := RemoveTree(dir); err != nil {
		t.Errorf("removed twice: %v", err)
	}
	if err := Thaw([]Group{g}); err != nil {
		t.Errorf("a group that is gone: %v", err)
	}
	if err := Remove([]Group{{Dir: dir}}, time.Now()); err != nil {
		t.Errorf("a group that is gone: %v", err)
	}
	if _, err := os.Stat(filepath.Dir(dir)); !os.IsNotExist(err) {
		t.Errorf("the empty parent is left: %v", err)
	}
}

func TestRemoveReportsAGroupThatStays(t *testing.T) {
	dir := testns.Dir(t, t.TempDir()+"/daemon/machine")
	testns.File(t, dir+"/file", "") // rmdir fails with ENOTEMPTY
	if err := Remove([]Group{{Dir: dir}}, time.Now()); err == nil || !strings.Contains(err.Error(), "remove cgroup") {
		t.Errorf("got %v", err)
	}
}
