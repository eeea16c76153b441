package guest

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"unsafe"
)

const modulesDir = "/modules"

// loadModules loads the drivers of the initramfs in the order of its list, and removes them: they would stay in memory.
func loadModules() error {
	list, err := os.ReadFile(modulesDir + "/order")
	if err != nil {
		return fmt.Errorf("read list of modules: %w", err)
	}
	for _, name := range strings.Fields(string(list)) {
		if err := loadModule(modulesDir + "/" + name); err != nil {
			return fmt.Errorf("load module %s: %w", name, err)
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
