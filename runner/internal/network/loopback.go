package network

import (
	"encoding/binary"
	"fmt"
	"net"
	"syscall"
)

// AddLoopback adds addresses to the loopback interface and brings it up. glibc does not resolve names while 127.0.0.1
// is the only address.
func AddLoopback(addresses []string) error {
	if len(addresses) == 0 {
		return nil
	}
	lo, err := net.InterfaceByName("lo")
	if err != nil {
		return fmt.Errorf("find loopback interface: %w", err)
	}
	for _, address := range addresses {
		ip, network, err := net.ParseCIDR(address)
		if err != nil {
			return fmt.Errorf("loopback address: %w", err)
		}
		ones, _ := network.Mask.Size()
		err = netlink(syscall.RTM_NEWADDR, syscall.NLM_F_CREATE|syscall.NLM_F_EXCL, addressMessage(lo.Index, ip, ones))
		if err != nil && err != syscall.EEXIST {
			return fmt.Errorf("add %s to loopback: %w", address, err)
		}
	}
	// ifinfomsg: family, padding, type, index, flags, change
	up := make([]byte, syscall.SizeofIfInfomsg)
	binary.LittleEndian.PutUint32(up[4:], uint32(lo.Index))
	binary.LittleEndian.PutUint32(up[8:], syscall.IFF_UP)
	binary.LittleEndian.PutUint32(up[12:], syscall.IFF_UP)
	if lo.Flags&net.FlagUp == 0 {
		if err := netlink(syscall.RTM_NEWLINK, 0, up); err != nil {
			return fmt.Errorf("bring loopback up: %w", err)
		}
	}
	return nil
}

// addressMessage is an ifaddrmsg with the address as IFA_LOCAL and IFA_ADDRESS.
func addressMessage(index int, ip net.IP, ones int) []byte {
	family, raw := byte(syscall.AF_INET6), ip.To16()
	if v4 := ip.To4(); v4 != nil {
		family, raw = syscall.AF_INET, v4
	}
	message := []byte{family, byte(ones), 0, syscall.RT_SCOPE_HOST, 0, 0, 0, 0}
	binary.LittleEndian.PutUint32(message[4:], uint32(index))
	for _, kind := range []uint16{syscall.IFA_LOCAL, syscall.IFA_ADDRESS} {
		attribute := make([]byte, syscall.SizeofRtAttr, syscall.SizeofRtAttr+len(raw))
		binary.LittleEndian.PutUint16(attribute, uint16(syscall.SizeofRtAttr+len(raw)))
		binary.LittleEndian.PutUint16(attribute[2:], kind)
		message = append(message, append(attribute, raw...)...)
	}
	return message
}

// netlink sends one request to the kernel and returns its error.
func netlink(kind, flags uint16, payload []byte) error {
	fd, err := syscall.Socket(syscall.AF_NETLINK, syscall.SOCK_RAW|syscall.SOCK_CLOEXEC, syscall.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer syscall.Close(fd)
	message := make([]byte, syscall.SizeofNlMsghdr, syscall.SizeofNlMsghdr+len(payload))
	binary.LittleEndian.PutUint32(message, uint32(syscall.SizeofNlMsghdr+len(payload)))
	binary.LittleEndian.PutUint16(message[4:], kind)
	binary.LittleEndian.PutUint16(message[6:], flags|syscall.NLM_F_REQUEST|syscall.NLM_F_ACK)
	if err := syscall.Sendto(fd, append(message, payload...), 0, &syscall.SockaddrNetlink{Family: syscall.AF_NETLINK}); err != nil {
		return err
	}
	reply := make([]byte, 4096)
	n, _, err := syscall.Recvfrom(fd, reply, 0)
	if err != nil {
		return err
	}
	answers, err := syscall.ParseNetlinkMessage(reply[:n])
	if err != nil {
		return err
	}
	for _, answer := range answers {
		if answer.Header.Type == syscall.NLMSG_ERROR && len(answer.Data) >= 4 {
			if code := int32(binary.LittleEndian.Uint32(answer.Data)); code != 0 {
				return syscall.Errno(-code)
			}
		}
	}
	return nil
}
