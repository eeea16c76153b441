package network

import (
	"net"
	"testing"
	"time"
)

var card = net.HardwareAddr{2, 1, 2, 3, 4, 5}

func answer(kind byte, transaction uint32, options ...byte) []byte {
	message := dhcpMessage(kind, transaction, card, nil)
	message[0] = 2
	copy(message[16:], []byte{10, 1, 2, 3})
	message = append(message[:bootpBytes+4], optionKind, 1, kind, optionServer, 4, 10, 1, 0, 1)
	return append(append(message, options...), optionEnd)
}

func TestALeaseIsParsedFromItsAnswer(t *testing.T) {
	message := answer(dhcpAck, 7, optionMask, 4, 255, 255, 0, 0, optionRouter, 4, 10, 1, 0, 1, optionNames, 8, 10, 1, 0, 2, 10, 1, 0, 3,
		optionLeaseTime, 4, 0, 0, 0x0e, 0x10)
	got, err := parseDhcp(message, dhcpAck, 7, card)
	if err != nil {
		t.Fatal(err)
	}
	if ones, _ := got.mask.Size(); got.address.String() != "10.1.2.3" || ones != 16 || got.router.String() != "10.1.0.1" || len(got.names) != 2 ||
		got.time != time.Hour {
		t.Errorf("%+v", got)
	}
}

func TestAnAnswerForAnotherMachineIsNoLease(t *testing.T) {
	good := answer(dhcpOffer, 7)
	if _, err := parseDhcp(good, dhcpOffer, 7, card); err != nil {
		t.Fatal(err)
	}
	other := append([]byte{}, good...)
	other[28]++
	cut := answer(dhcpOffer, 7, optionMask, 40)
	for name, message := range map[string][]byte{"another kind": answer(dhcpAck, 7), "another transaction": answer(dhcpOffer, 8),
		"another card": other, "too short": good[:100], "an option past the end": cut, "nothing": nil} {
		if _, err := parseDhcp(message, dhcpOffer, 7, card); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
	for n := range good {
		parseDhcp(good[:n], dhcpOffer, 7, card) // must not panic
	}
}
