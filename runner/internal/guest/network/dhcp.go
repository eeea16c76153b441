package network

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net"
	"time"
)

// The part of DHCP (RFC 2131) that a client needs to get an address.
const (
	dhcpDiscover = 1
	dhcpOffer    = 2
	dhcpRequest  = 3
	dhcpAck      = 5

	optionMask      = 1
	optionRouter    = 3
	optionNames     = 6
	optionAddress   = 50
	optionLeaseTime = 51
	optionKind      = 53
	optionServer    = 54
	optionWanted    = 55
	optionEnd       = 255

	bootpBytes = 236 // up to the options
	leastLease = time.Minute
)

var dhcpCookie = []byte{99, 130, 83, 99}

// A lease is the address that a server gives, with the network around it.
type lease struct {
	address, server, router net.IP
	mask                    net.IPMask
	names                   []net.IP
	time                    time.Duration
}

// dhcpMessage builds a message that asks for an offer or, with an offer, for the address in it.
func dhcpMessage(kind byte, transaction uint32, card net.HardwareAddr, offer *lease) []byte {
	message := make([]byte, bootpBytes)
	message[0], message[1], message[2] = 1, 1, 6 // a request over Ethernet
	binary.BigEndian.PutUint32(message[4:], transaction)
	message[10] = 0x80 // answers are broadcast: this machine has no address yet
	copy(message[28:], card)
	message = append(message, dhcpCookie...)
	message = append(message, optionKind, 1, kind, optionWanted, 3, optionMask, optionRouter, optionNames)
	if offer != nil {
		message = append(append(message, optionAddress, 4), offer.address.To4()...)
		message = append(append(message, optionServer, 4), offer.server.To4()...)
	}
	return append(message, optionEnd)
}

var errNotOurs = errors.New("not an answer to this machine")

// parseDhcp parses an answer of the wanted kind. Any machine on the network may have sent it.
func parseDhcp(message []byte, kind byte, transaction uint32, card net.HardwareAddr) (*lease, error) {
	if len(message) < bootpBytes+len(dhcpCookie) || message[0] != 2 || binary.BigEndian.Uint32(message[4:]) != transaction ||
		!bytes.Equal(message[28:34], card) || !bytes.Equal(message[bootpBytes:bootpBytes+4], dhcpCookie) {
		return nil, errNotOurs
	}
	got := &lease{address: net.IP(message[16:20]), mask: net.CIDRMask(24, 32), time: time.Hour}
	var found byte
	for options := message[bootpBytes+4:]; len(options) > 0 && options[0] != optionEnd; {
		if options[0] == 0 {
			options = options[1:]
			continue
		}
		if len(options) < 2 || len(options) < 2+int(options[1]) {
			return nil, errNotOurs
		}
		value := options[2 : 2+int(options[1])]
		found = got.take(options[0], value, found)
		options = options[2+len(value):]
	}
	if found != kind || got.server == nil || !got.address.IsGlobalUnicast() {
		return nil, errNotOurs
	}
	return got, nil
}

func (l *lease) take(option byte, value []byte, kind byte) byte {
	switch {
	case option == optionKind && len(value) == 1:
		return value[0]
	case option == optionServer && len(value) == 4:
		l.server = net.IP(value)
	case option == optionMask && len(value) == 4:
		l.mask = net.IPMask(value)
	case option == optionRouter && len(value) >= 4:
		l.router = net.IP(value[:4])
	case option == optionLeaseTime && len(value) == 4:
		if l.time = time.Duration(binary.BigEndian.Uint32(value)) * time.Second; l.time < leastLease {
			l.time = leastLease
		}
	case option == optionNames:
		for i := 0; i+4 <= len(value); i += 4 {
			l.names = append(l.names, net.IP(value[i:i+4]))
		}
	}
	return kind
}
