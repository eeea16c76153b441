// Package guest is the first process of a virtual machine of the microvm backend.
//
// The machine boots without secrets and without a name: it loads its drivers, mounts the image, starts a process that will become the
// runner, and waits on the port sandglass.control. At this point the daemon may take a memory snapshot, and machines that are restored from
// it continue here. The daemon then sends one line with the configuration of the session. Only then does the waiting process, which has pid
// and mount namespaces of its own, mount the session's disk, enter the root filesystem, drop its rights and serve as the runner. The first
// process answers requests about the machine as a whole (statistics, end) and runs no program of the user. runner/LAUNCHER.md describes the
// messages.
package guest

import (
	"os"
	"syscall"

	"sandglass/runner/internal/guest/network"
)

// Program is the path under which the kernel starts the program of an initramfs.
const Program = "/init"

// Loopback are the addresses of the loopback interface of every machine.
var Loopback = []string{"127.0.0.1/8", "127.0.0.53/8"}

// Main runs the machine and powers it off. It never returns.
func Main() {
	reason, err := run()
	if err != nil {
		reason = &exitReason{exitFailed, err.Error()}
	}
	if reason != nil {
		say("%s", reason.line())
	}
	powerOff()
}

// run returns why the session ended; nil for a machine that only boots.
func run() (*exitReason, error) {
	f, err := parseBootOptions(os.Args[1:])
	if err != nil {
		return nil, err
	}
	if f.trial {
		say(bootedMessage)
		return nil, nil
	}
	// Steps that are the same for every session come before the wait: machines that are restored from a snapshot have done them.
	for _, step := range []func() error{mountEarly, f.loadModules, lockKernel, mountImage, f.mountPackages, makeMountPointLayer, copyRunner, makeGroup} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	s, err := startSession()
	if err != nil {
		return nil, err
	}
	control, err := openControl()
	if err != nil {
		return nil, err
	}
	say(waitingMessage)
	cfg, line, err := control.awaitConfig()
	if err != nil {
		return nil, err
	}
	if err := begin(cfg, line, s); err != nil {
		control.send(started{"failed", err.Error()})
		return nil, err
	}
	control.send(started{Type: "started"})
	go control.serve(s)
	return s.wait()
}

// begin configures the waiting machine for its session and lets the runner continue. line is the configuration as it came.
func begin(cfg *config, line []byte, s *session) error {
	if err := addEntropy(cfg.Entropy); err != nil {
		return err
	}
	if err := setClock(cfg.ClockMs); err != nil {
		return err
	}
	if err := limitGroup(workGroup, &cfg.Limits); err != nil {
		return err
	}
	resolver := ""
	if cfg.Bridged {
		var err error
		if resolver, err = network.Join(); err != nil {
			return err
		}
	}
	return s.begin(line, resolver)
}

// powerOff writes all data to the disks and ends the machine.
func powerOff() {
	syscall.Sync()
	syscall.Reboot(syscall.LINUX_REBOOT_CMD_POWER_OFF)
	// A kernel that cannot power off can restart, which ends the machine too: QEMU runs with -no-reboot.
	syscall.Reboot(syscall.LINUX_REBOOT_CMD_RESTART)
}
