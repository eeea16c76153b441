package sys

import (
	"fmt"
	"syscall"
)

// Options of Prctl.
const (
	PrSetDumpable   = 4
	PrSetSubreaper  = 36
	PrSetNoNewPrivs = 38
)

func Prctl(option, value uintptr) error {
	if _, _, errno := syscall.Syscall6(syscall.SYS_PRCTL, option, value, 0, 0, 0, 0); errno != 0 {
		return fmt.Errorf("prctl %d: %w", option, errno)
	}
	return nil
}
