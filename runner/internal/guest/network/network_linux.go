// Package network configures the network card of a virtual machine with DHCP.
package network

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"
	"unsafe"
)

const (
	setAddress = 0x8916 // SIOCSIFADDR
	setMask    = 0x891c // SIOCSIFNETMASK
	setFlags   = 0x8914 // SIOCSIFFLAGS
	addRoute   = 0x890b // SIOCADDRT

	dhcpAttempts = 6
	dhcpWait     = 2 * time.Second

	cardDeadline = 10 * time.Second
)

// Join configures the network card with a lease and renews the lease in the background. It returns the content of /etc/resolv.conf.
func Join() (string, error) {
	card, err := findCard()
	if err != nil {
		return "", err
	}
	if err := bringUp(card.Name); err != nil {
		return "", fmt.Errorf("bring %s up: %w", card.Name, err)
	}
	got, err := askForLease(card)
	if err != nil {
		return "", err
	}
	go func() {
		for {
			time.Sleep(got.time / 2)
			if again, err := askForLease(card); err == nil {
				got = again
			}
		}
	}()
	return got.resolvConf(), nil
}

func (l *lease) resolvConf() string {
	text := ""
	for _, server := range l.names {
		text += "nameserver " + server.String() + "\n"
	}
	return text
}

// findCard waits for an interface other than loopback. Drivers create it some time after their modules are loaded.
func findCard() (*net.Interface, error) {
	for deadline := time.Now().Add(cardDeadline); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		cards, err := net.Interfaces()
		if err != nil {
			return nil, fmt.Errorf("list interfaces: %w", err)
		}
		for i := range cards {
			if cards[i].Flags&net.FlagLoopback == 0 && len(cards[i].HardwareAddr) == 6 {
				return &cards[i], nil
			}
		}
	}
	return nil, errors.New("this machine has no network card")
}

func askForLease(card *net.Interface) (*lease, error) {
	socket, err := dhcpSocket(card.Name)
	if err != nil {
		return nil, fmt.Errorf("ask for an address: %w", err)
	}
	defer syscall.Close(socket)
	for i := 0; i < dhcpAttempts; i++ {
		transaction := uint32(time.Now().UnixNano())
		offer, err := exchange(socket, dhcpDiscover, dhcpOffer, transaction, card, nil)
		if err == nil {
			offer, err = exchange(socket, dhcpRequest, dhcpAck, transaction, card, offer)
		}
		if err == nil {
			return offer, offer.use(card.Name)
		}
		if !errors.Is(err, syscall.EAGAIN) {
			return nil, fmt.Errorf("ask for an address: %w", err)
		}
	}
	return nil, errors.New("no DHCP server on the bridge answered")
}

func dhcpSocket(card string) (int, error) {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_DGRAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	wait := syscall.NsecToTimeval(int64(dhcpWait))
	for _, err := range []error{
		syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_BROADCAST, 1),
		syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1),
		syscall.BindToDevice(fd, card),
		syscall.SetsockoptTimeval(fd, syscall.SOL_SOCKET, syscall.SO_RCVTIMEO, &wait),
		syscall.Bind(fd, &syscall.SockaddrInet4{Port: 68}),
	} {
		if err != nil {
			syscall.Close(fd)
			return -1, err
		}
	}
	return fd, nil
}

// exchange sends one message and waits for its answer. It returns EAGAIN if none comes in time.
func exchange(fd int, kind, wanted byte, transaction uint32, card *net.Interface, offer *lease) (*lease, error) {
	message := dhcpMessage(kind, transaction, card.HardwareAddr, offer)
	broadcast := &syscall.SockaddrInet4{Port: 67, Addr: [4]byte{255, 255, 255, 255}}
	if err := syscall.Sendto(fd, message, 0, broadcast); err != nil {
		return nil, err
	}
	buffer := make([]byte, 2048)
	for deadline := time.Now().Add(dhcpWait); time.Now().Before(deadline); {
		n, _, err := syscall.Recvfrom(fd, buffer, 0)
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			return nil, err
		}
		if got, err := parseDhcp(append([]byte{}, buffer[:n]...), wanted, transaction, card.HardwareAddr); err == nil {
			return got, nil
		}
	}
	return nil, syscall.EAGAIN
}

// The kernel's struct ifreq.
type interfaceRequest struct {
	name  [16]byte
	value [24]byte
}

func bringUp(card string) error {
	r := interfaceRequest{}
	copy(r.name[:15], card)
	binary.LittleEndian.PutUint16(r.value[:], syscall.IFF_UP)
	return configure(setFlags, uintptr(unsafe.Pointer(&r)))
}

func (l *lease) use(card string) error {
	// In this order: setting an address resets the mask.
	if err := setInterface(card, setAddress, l.address); err != nil {
		return fmt.Errorf("set address: %w", err)
	}
	if err := setInterface(card, setMask, net.IP(l.mask)); err != nil {
		return fmt.Errorf("set mask: %w", err)
	}
	if l.router == nil {
		return nil
	}
	// struct rtentry: a default route through the router.
	route := [120]byte{}
	putAddress(route[8:], net.IPv4zero)
	putAddress(route[24:], l.router)
	putAddress(route[40:], net.IPv4zero)
	binary.LittleEndian.PutUint16(route[56:], 3) // up, through a gateway
	if err := configure(addRoute, uintptr(unsafe.Pointer(&route))); err != nil && err != syscall.EEXIST {
		return fmt.Errorf("add route: %w", err)
	}
	return nil
}

func setInterface(card string, request uintptr, ip net.IP) error {
	r := interfaceRequest{}
	copy(r.name[:15], card)
	putAddress(r.value[:], ip)
	return configure(request, uintptr(unsafe.Pointer(&r)))
}

// putAddress writes a struct sockaddr_in.
func putAddress(to []byte, ip net.IP) {
	binary.LittleEndian.PutUint16(to, syscall.AF_INET)
	copy(to[4:8], ip.To4())
}

func configure(request, argument uintptr) error {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_DGRAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer syscall.Close(fd)
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, uintptr(fd), request, argument); errno != 0 {
		return errno
	}
	return nil
}
