package network

import (
	"bytes"
	"encoding/binary"
	"net"
	"testing"
	"time"
)

func TestResolvConfNamesTheServersOfTheLease(t *testing.T) {
	l := &lease{names: []net.IP{net.IPv4(10, 0, 0, 2), net.IPv4(1, 1, 1, 1)}}
	if got := l.resolvConf(); got != "nameserver 10.0.0.2\nnameserver 1.1.1.1\n" {
		t.Errorf("got %q", got)
	}
	if got := (&lease{}).resolvConf(); got != "" {
		t.Errorf("without servers: %q", got)
	}
}

func TestAnAddressIsASockaddr(t *testing.T) {
	buffer := make([]byte, 16)
	putAddress(buffer, net.IPv4(192, 168, 1, 2))
	if binary.LittleEndian.Uint16(buffer) != 2 || !bytes.Equal(buffer[4:8], []byte{192, 168, 1, 2}) {
		t.Errorf("got %v", buffer)
	}
}

func TestARequestNamesTheOfferedAddressAndItsServer(t *testing.T) {
	offer := &lease{address: net.IPv4(10, 1, 2, 3), server: net.IPv4(10, 1, 0, 1)}
	message := dhcpMessage(dhcpRequest, 9, card, offer)
	if binary.BigEndian.Uint32(message[4:]) != 9 || !bytes.Equal(message[28:34], card) || message[10] != 0x80 {
		t.Errorf("the header is %v", message[:34])
	}
	options := message[bootpBytes+4:]
	want := []byte{optionKind, 1, dhcpRequest, optionWanted, 3, optionMask, optionRouter, optionNames,
		optionAddress, 4, 10, 1, 2, 3, optionServer, 4, 10, 1, 0, 1, optionEnd}
	if !bytes.Equal(options, want) {
		t.Errorf("the options are %v", options)
	}
}

func TestALeaseOfSecondsIsNotRenewedAllTheTime(t *testing.T) {
	got, err := parseDhcp(answer(dhcpAck, 7, optionLeaseTime, 4, 0, 0, 0, 1), dhcpAck, 7, card)
	if err != nil || got.time != time.Minute {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestAnAddressThatNobodyCanHaveIsNoLease(t *testing.T) {
	for _, address := range [][]byte{{0, 0, 0, 0}, {127, 0, 0, 1}, {255, 255, 255, 255}, {224, 0, 0, 1}} {
		message := answer(dhcpAck, 7)
		copy(message[16:], address)
		if _, err := parseDhcp(message, dhcpAck, 7, card); err == nil {
			t.Errorf("%v was accepted", address)
		}
	}
}
