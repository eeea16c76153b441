package sys

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

func TestChildrenInheritOnlyTheStandardDescriptors(t *testing.T) {
	secret, err := os.CreateTemp(t.TempDir(), "secret")
	if err != nil {
		t.Fatal(err)
	}
	defer secret.Close()
	fd, err := syscall.Dup(int(secret.Fd())) // without close-on-exec, as another program would leave it
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(fd)
	held := func() bool {
		output, err := exec.Command("sh", "-c", "ls -l /proc/$$/fd").Output()
		if err != nil {
			t.Fatal(err)
		}
		return strings.Contains(string(output), secret.Name())
	}
	if !held() {
		t.Fatal("the descriptor was not inherited in the first place")
	}
	if err := CloseOnExec(); err != nil {
		t.Fatal(err)
	}
	if held() {
		t.Error("a child inherited the descriptor")
	}
}
