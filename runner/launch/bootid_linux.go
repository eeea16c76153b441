package launch

import (
	"fmt"
	"os"
	"runtime"
	"syscall"
)

const kernelBootID = "/proc/sys/kernel/random/boot_id"

// showBootID puts a file in place of the kernel's boot id, in the mount namespace of a machine whose programs have not started yet. It is not a
// mount of the bundle, because runc refuses mounts in /proc.
//
// SECURITY: the kernel's own is the same in every container of a host, and tells which of them share one.
func showBootID(pid int, file string) error {
	own, err := cloneTree(file, false)
	if err != nil {
		return err
	}
	defer own.close()
	if err := own.setAttr(attrReadonly|attrNosuid|attrNodev|attrNoexec, -1); err != nil {
		return fmt.Errorf("restrict mount of the boot id: %w", err)
	}
	mounts, err := os.Open(fmt.Sprintf("/proc/%d/ns/mnt", pid))
	if err != nil {
		return fmt.Errorf("open the machine's mount namespace: %w", err)
	}
	defer mounts.Close()
	done := make(chan error)
	go func() {
		// Never unlocked: the thread ends with the goroutine, and nothing else runs in that namespace.
		runtime.LockOSThread()
		done <- own.attachIn(mounts, kernelBootID)
	}()
	if err := <-done; err != nil {
		return fmt.Errorf("give the machine a boot id of its own: %w", err)
	}
	return nil
}

// attachIn puts the tree at a path of another mount namespace, and leaves this thread there.
func (t tree) attachIn(mounts *os.File, path string) error {
	// Threads share their root and working directory until then, and the kernel moves none that does.
	if err := syscall.Unshare(syscall.CLONE_FS); err != nil {
		return fmt.Errorf("unshare the root: %w", err)
	}
	if _, _, errno := syscall.Syscall(sysSetns, mounts.Fd(), syscall.CLONE_NEWNS, 0); errno != 0 {
		return fmt.Errorf("enter the mount namespace: %w", errno)
	}
	target, err := openPath(path)
	if err != nil {
		return err
	}
	defer target.close()
	return t.attach(target)
}
