// Package testns gives tests a mount namespace of their own. Only tests use it.
package testns

import (
	"os"
	"runtime"
	"syscall"
	"testing"
)

// Root skips the test for ordinary users.
func Root(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: it makes mounts, namespaces or files of other owners")
	}
}

// Private moves the test's goroutine and its thread into a mount namespace of their own. The thread ends with the test, and the mounts with
// it. The test must not start subtests that need the mounts, because those run in other threads.
func Private(t *testing.T) {
	t.Helper()
	Root(t)
	runtime.LockOSThread()
	if err := syscall.Unshare(syscall.CLONE_NEWNS); err != nil {
		t.Skipf("no mount namespace here: %v", err)
	}
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		t.Fatal(err)
	}
}

// Folder makes a temporary folder whose mounts are removed before the folder is. Every user may enter it.
func Folder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "sandglass-test-")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "mode=755"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
		if err := os.Remove(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// Dir makes a folder and its parents and returns its path.
func Dir(t *testing.T, path string) string {
	t.Helper()
	if err := os.MkdirAll(path, 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// File writes a file and returns its path.
func File(t *testing.T, path, content string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// Content reads a file.
func Content(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
