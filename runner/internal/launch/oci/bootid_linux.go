package oci

import (
	"fmt"
	"os"
	"runtime"

	"sandglass/runner/internal/launch/mount"
)

const kernelBootID = "/proc/sys/kernel/random/boot_id"

// mountBootID mounts a file over the kernel's boot id, in the mount namespace of a machine in which no program of the user runs yet. It is
// no mount of the bundle, because runc refuses mounts in /proc.
//
// SECURITY: the kernel's boot id is the same in every container of a host, so that containers could tell that they share one.
func mountBootID(pid int, file string) error {
	own, err := mount.Clone(file, false)
	if err != nil {
		return err
	}
	defer own.Close()
	if err := own.SetAttr(mount.Readonly|mount.Nosuid|mount.Nodev|mount.Noexec, -1); err != nil {
		return fmt.Errorf("restrict mount of the boot id: %w", err)
	}
	namespace, err := os.Open(fmt.Sprintf("/proc/%d/ns/mnt", pid))
	if err != nil {
		return fmt.Errorf("open the machine's mount namespace: %w", err)
	}
	defer namespace.Close()
	done := make(chan error)
	go func() {
		// Never unlocked: the thread ends with the goroutine, so that no other goroutine runs in that namespace.
		runtime.LockOSThread()
		done <- own.AttachIn(namespace, kernelBootID)
	}()
	if err := <-done; err != nil {
		return fmt.Errorf("mount the boot id: %w", err)
	}
	return nil
}
