// Package guest is the runner as the first process of a virtual machine of the microvm backend.
//
// The machine boots with no secret and no name: it loads its drivers, mounts the image, starts the process that is to be the runner, and
// waits on the port sandglass.control. This is where a memory snapshot of it may be taken and where copies of that snapshot go on. The
// daemon then sends one line with everything that is the session's own. Only then does that process, which is the first of a pid namespace
// and has its own mounts, mount the session's disk, shut itself in and serve. What stays here answers for the machine as a whole
// (statistics, the end) and runs nothing of the user's.
package guest

import (
	"fmt"
	"os"
	"syscall"
)

// Name under which the kernel starts what is in an initramfs.
const Program = "/init"

// Loopback are the addresses that lo has in every machine.
var Loopback = []string{"127.0.0.1/8", "127.0.0.53/8"}

// Main is the life of the machine. It never returns: the machine is off when it is over.
func Main() {
	if err := live(); err != nil {
		say("%v", err)
	}
	powerOff()
}

func live() error {
	f, err := readFacts(os.Args[1:])
	if err != nil {
		return err
	}
	if f.trial {
		say("this machine boots")
		return nil
	}
	// Everything that is the same for every session comes before the wait: copies of a snapshot have it behind them.
	for _, step := range []func() error{mountEarly, f.loadModules, lockKernel, mountImage, layOut, placeRunner, makeGroup} {
		if err := step(); err != nil {
			return err
		}
	}
	s, err := startSession()
	if err != nil {
		return err
	}
	control, err := openControl()
	if err != nil {
		return err
	}
	say("waiting for the session")
	cfg, line, err := control.awaitConfig()
	if err != nil {
		return err
	}
	if err := begin(cfg, line, s); err != nil {
		control.send(map[string]any{"type": "failed", "error": err.Error()})
		return err
	}
	control.send(map[string]any{"type": "started"})
	go control.serve(s)
	return s.wait()
}

// begin makes the waiting machine the session's own and lets its runner go on. The line is the configuration as it came.
func begin(cfg *config, line []byte, s *session) error {
	if err := stirEntropy(cfg.Entropy); err != nil {
		return err
	}
	if err := setClock(cfg.ClockMs); err != nil {
		return err
	}
	if err := limitGroup(&cfg.Limits); err != nil {
		return err
	}
	names := ""
	if cfg.Bridged {
		var err error
		if names, err = joinNetwork(); err != nil {
			return err
		}
	}
	return s.begin(line, names)
}

func say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "sandglass: "+format+"\n", args...)
}

// powerOff ends the machine with its disk in order.
func powerOff() {
	syscall.Sync()
	syscall.Reboot(syscall.LINUX_REBOOT_CMD_POWER_OFF)
	// A kernel that cannot switch the power off can start again, which ends the machine too.
	syscall.Reboot(syscall.LINUX_REBOOT_CMD_RESTART)
}
