package microvm

import (
	"fmt"
	"net"
	"os"
	"syscall"
	"unsafe"
)

const (
	tunSetIff      = 0x400454ca
	iffTap         = 0x0002
	iffNoPi        = 0x1000
	iffVnetHdr     = 0x4000
	bridgeAdd      = 0x89a2 // SIOCBRADDIF
	interfaceFlags = 0x8914 // SIOCSIFFLAGS
)

// The kernel's struct ifreq.
type interfaceRequest struct {
	name  [16]byte
	value [24]byte
}

func (r *interfaceRequest) flags(value uint16) {
	*(*uint16)(unsafe.Pointer(&r.value[0])) = value
}

// openTap makes a tap interface, which becomes the machine's network card, and adds it to the bridge. The kernel removes it when the
// descriptor is closed.
func openTap(bridge string) (*os.File, error) {
	if _, err := net.InterfaceByName(bridge); err != nil {
		return nil, fmt.Errorf("find bridge %s: %w", bridge, err)
	}
	// Opened without os.OpenFile: the Go runtime would poll it, and a tap without an interface cannot be polled.
	fd, err := syscall.Open("/dev/net/tun", syscall.O_RDWR|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open /dev/net/tun: %w", err)
	}
	tap := os.NewFile(uintptr(fd), "tap")
	request := interfaceRequest{}
	request.flags(iffTap | iffNoPi | iffVnetHdr)
	if err := control(fd, tunSetIff, &request); err != nil {
		tap.Close()
		return nil, fmt.Errorf("make tap: %w", err)
	}
	if err := joinBridge(request.name, bridge); err != nil {
		tap.Close()
		return nil, err
	}
	return tap, nil
}

func joinBridge(name [16]byte, bridge string) error {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_DGRAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("make socket: %w", err)
	}
	defer syscall.Close(fd)
	length := 0
	for length < len(name) && name[length] != 0 {
		length++
	}
	tap, err := net.InterfaceByName(string(name[:length]))
	if err != nil {
		return fmt.Errorf("find tap: %w", err)
	}
	join := interfaceRequest{}
	copy(join.name[:15], bridge)
	*(*int32)(unsafe.Pointer(&join.value[0])) = int32(tap.Index)
	if err := control(fd, bridgeAdd, &join); err != nil {
		return fmt.Errorf("join bridge %s: %w", bridge, err)
	}
	up := interfaceRequest{name: name}
	up.flags(syscall.IFF_UP)
	if err := control(fd, interfaceFlags, &up); err != nil {
		return fmt.Errorf("bring tap up: %w", err)
	}
	return nil
}

func control(fd int, request uintptr, argument *interfaceRequest) error {
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, uintptr(fd), request, uintptr(unsafe.Pointer(argument))); errno != 0 {
		return errno
	}
	return nil
}
