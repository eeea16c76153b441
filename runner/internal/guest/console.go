package guest

import (
	"encoding/json"
	"fmt"
	"os"
)

// Messages on the console that the daemon reads in the boot log. runner/testdata/launcher/guest-console.json has them for both sides.
const (
	consolePrefix  = "sandglass: "
	bootedMessage  = "booted"
	waitingMessage = "waiting for a session"
	exitPrefix     = "exit "
)

// Why a session ended.
const (
	exitFailed      = "failed"        // the machine or its runner could not start
	exitRequested   = "requested"     // the daemon asked for it
	exitOutOfMemory = "out_of_memory" // the kernel killed the runner because the memory limit was reached
	exitSignal      = "signal"        // a signal ended the runner
	exitStatus      = "status"        // the runner exited
)

// An exitReason is the last message of a machine.
type exitReason struct {
	Reason string `json:"reason"`
	Text   string `json:"text"`
}

func (r *exitReason) line() string {
	data, err := json.Marshal(r)
	if err != nil {
		return exitPrefix + "{}" // two strings can always be encoded
	}
	return exitPrefix + string(data)
}

// say prints a line on the console.
func say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, consolePrefix+format+"\n", args...)
}
