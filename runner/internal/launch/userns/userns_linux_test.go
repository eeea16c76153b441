package userns

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"sandglass/runner/internal/testns"
)

// runIn runs a program in a user namespace.
func runIn(t *testing.T, ns *os.File, argv ...string) string {
	t.Helper()
	cmd := exec.Command("nsenter", append([]string{"--user=/proc/self/fd/3", "--preserve-credentials", "--"}, argv...)...)
	cmd.ExtraFiles = []*os.File{ns}
	output, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	return strings.Join(strings.Fields(string(output)), " ")
}

func TestANamespaceHasItsIDsAndBelongsToTheSandboxsRoot(t *testing.T) {
	testns.Root(t)
	runtime.LockOSThread()
	ns, err := New([]Range{{Inside: 0, Outside: 300_000, Size: 1000}, {Inside: 2000, Outside: 400_000, Size: 5}})
	if err != nil {
		t.Skipf("no user namespaces here: %v", err)
	}
	defer ns.Close()
	for _, name := range []string{"uid_map", "gid_map"} {
		if got := runIn(t, ns, "cat", "/proc/self/"+name); got != "0 300000 1000 2000 400000 5" {
			t.Errorf("%s is %q", name, got)
		}
	}
	const nsGetOwner = 0xb704
	owner := uint32(0)
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, ns.Fd(), nsGetOwner, uintptr(unsafe.Pointer(&owner))); errno != 0 || owner != 300_000 {
		t.Errorf("the owner is %d, %v", owner, errno)
	}
	if uid := syscall.Geteuid(); uid != 0 {
		t.Errorf("this thread is user %d now", uid)
	}
	var status syscall.WaitStatus
	if pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil); err != syscall.ECHILD {
		t.Errorf("a child is left: %d, %v", pid, err)
	}
}

func TestAMapOnlyNamespaceShiftsOneOwner(t *testing.T) {
	testns.Root(t)
	runtime.LockOSThread()
	ns, err := NewMap([]syscall.SysProcIDMap{{ContainerID: 1000, HostID: 5000, Size: 1}}, []syscall.SysProcIDMap{{ContainerID: 7, HostID: 8, Size: 1}})
	if err != nil {
		t.Skipf("no user namespaces here: %v", err)
	}
	defer ns.Close()
	for name, want := range map[string]string{"uid_map": "1000 5000 1", "gid_map": "7 8 1"} {
		if got := runIn(t, ns, "cat", "/proc/self/"+name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

func TestBadIDsMakeNoNamespace(t *testing.T) {
	testns.Root(t)
	runtime.LockOSThread()
	if _, err := New(nil); err == nil {
		t.Error("a namespace without ids was made")
	}
	// Ranges that overlap.
	if _, err := New([]Range{{0, 300_000, 10}, {5, 400_000, 10}}); err == nil {
		t.Error("a namespace with overlapping ids was made")
	}
	if uid := syscall.Geteuid(); uid != 0 {
		t.Errorf("this thread is user %d after a failure", uid)
	}
}

func TestEnterChecksItsArguments(t *testing.T) {
	for _, args := range [][]string{nil, {"1"}, {"one", "true"}, {"4194304", "true"}} {
		if err := Enter(args); err == nil {
			t.Errorf("%v was accepted", args)
		}
	}
}

func TestEnterRunsAProgramInTheParentNamespace(t *testing.T) {
	testns.Root(t)
	child := exec.Command("unshare", "--user", "--map-root-user", "cat")
	input, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Skipf("no unshare: %v", err)
	}
	defer child.Wait()
	defer input.Close()
	fmt.Fprintln(input, "ready")
	if _, err := output.Read(make([]byte, 6)); err != nil {
		t.Skipf("no user namespaces here: %v", err)
	}
	enter := exec.Command("/proc/self/exe", "enter-test", fmt.Sprint(child.Process.Pid), "readlink", "/proc/self/ns/user")
	entered, err := enter.CombinedOutput()
	own, _ := os.Readlink("/proc/self/ns/user")
	// The parent of the child's namespace is this process's own; nsenter refuses to enter that one again.
	if err == nil && strings.TrimSpace(string(entered)) != own {
		t.Errorf("it ran in %s, this process is in %s", entered, own)
	}
	if err != nil && !strings.Contains(string(entered), "nsenter") {
		t.Errorf("%v: %s", err, entered)
	}
}

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "enter-test" {
		fmt.Fprintln(os.Stderr, Enter(os.Args[2:]))
		os.Exit(1)
	}
	os.Exit(m.Run())
}
