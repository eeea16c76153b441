package guest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"unsafe"
)

const modulesDir = "/modules"

// loadModules loads the usual drivers of the initramfs and the sets of them that the kernel's command line names, and removes the files:
// they would stay in memory.
func (f *facts) loadModules() error {
	for _, set := range append([]string{"base"}, f.load...) {
		list, err := os.ReadFile(filepath.Join(modulesDir, filepath.Base(set)+".list"))
		if err != nil {
			return fmt.Errorf("read list of modules: %w", err)
		}
		for _, name := range strings.Fields(string(list)) {
			if err := loadModule(filepath.Join(modulesDir, name+".ko")); err != nil {
				return fmt.Errorf("load module %s: %w", name, err)
			}
		}
	}
	return os.RemoveAll(modulesDir)
}

func loadModule(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	parameters := [1]byte{0}
	_, _, errno := syscall.Syscall(sysFinitModule, file.Fd(), uintptr(unsafe.Pointer(&parameters)), 0)
	if errno != 0 && !errors.Is(errno, syscall.EEXIST) {
		return errno
	}
	return nil
}
