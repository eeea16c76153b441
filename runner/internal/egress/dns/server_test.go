package dns

import (
	"io"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

const (
	typeTXT   = 16
	typeSRV   = 33
	typeSVCB  = 64
	typeHTTPS = 65
	typeANY   = 255
)

func TestAnswersOfEachType(t *testing.T) {
	f := start(t, known)
	for _, c := range []struct {
		title   string
		name    string
		kind    uint16
		code    status
		address string
	}{
		{"the address of a name", "example.com", typeA, noError, "127.64.0.2"},
		{"a name without a dot", "single", typeA, noError, "127.64.0.2"},
		{"no IPv6 address", "example.com", typeAAAA, noError, ""},
		{"no HTTPS record", "example.com", typeHTTPS, noError, ""},
		{"no SVCB record", "example.com", typeSVCB, noError, ""},
		{"no SRV record, without a lookup", "_http._tcp.example.com", typeSRV, noError, ""},
		{"no TXT record, without a lookup", "unknown.example", typeTXT, noError, ""},
		{"nothing for ANY", "example.com", typeANY, noError, ""},
		{"a name that does not exist", "missing.example", typeA, nameError, ""},
		{"a name that does not exist has no IPv6 address, either", "missing.example", typeAAAA, nameError, ""},
		{"a failure", "failing.example", typeA, serverFailure, ""},
		{"a failure of the other family", "failing.example", typeAAAA, serverFailure, ""},
		{"a reverse lookup", "1.0.64.127.in-addr.arpa", typePTR, nameError, ""},
		{"a reverse lookup of IPv6", "1.0.0.0.ip6.arpa", typePTR, nameError, ""},
		{"another type below arpa", "1.0.64.127.in-addr.arpa", typeA, nameError, ""},
		{"a PTR record of an ordinary name", "example.com", typePTR, nameError, ""},
		{"localhost", "localhost", typeA, noError, "127.0.0.1"},
		{"a name below localhost", "app.LocalHost", typeA, noError, "127.0.0.1"},
		{"localhost has no IPv6 address here", "localhost", typeAAAA, noError, ""},
		{"the machine's own name", "bOX", typeA, noError, "127.0.0.1"},
		{"the root", "", typeA, noError, ""},
		{"a space", "exa mple.com", typeA, nameError, ""},
		{"a byte above ASCII", "ex\xe4mple.com", typeA, nameError, ""},
		{"a NUL", "example.com\x00", typeA, nameError, ""},
		{"an underscore is allowed", "_a.missing.example", typeTXT, noError, ""},
	} {
		got := f.ask(question(c.name, c.kind))
		if got.code != int(c.code) || got.address != c.address || got.id != 0x1234 {
			t.Errorf("%s: %+v", c.title, got)
		}
		const wanted = 0x8180 // response, recursion desired and available
		if got.flags&^0xf != wanted {
			t.Errorf("%s: flags %x", c.title, got.flags)
		}
	}
}

func TestADotInsideALabelIsNotASeparator(t *testing.T) {
	packet := question("exampleXcom", typeA)
	packet[headerBytes+8] = '.'
	if got := start(t, known).ask(packet); got.code != int(nameError) {
		t.Errorf("got %+v", got)
	}
}

func TestTheQuestionIsEchoedAsItWasSent(t *testing.T) {
	packet := question("eXaMPle.cOM", typeA)
	got := start(t, known).ask(packet)
	if got.question != string(packet[headerBytes:]) || got.address != "127.64.0.2" {
		t.Errorf("got %+v", got)
	}
}

func TestEDNSIsAnswered(t *testing.T) {
	f := start(t, known)
	if got := f.ask(withOptions(question("example.com", typeA), 0, 0, 10, 0, 2, 1, 2)); !got.hasEDNS || got.address == "" || got.code != 0 {
		t.Errorf("version 0: %+v", got)
	}
	if got := f.ask(withOptions(question("example.com", typeA), 1)); !got.hasEDNS || got.address != "" || got.code != int(badVersion) {
		t.Errorf("version 1: %+v", got)
	}
}

func TestMalformedQueriesAreRejected(t *testing.T) {
	long := strings.Repeat("a", 63) + "." + strings.Repeat("b", 63) + "." + strings.Repeat("c", 63) + "." // 192
	change := func(at int, to byte) []byte {
		packet := question("example.com", typeA)
		packet[at] = to
		return packet
	}
	f := start(t, known)
	for title, c := range map[string]struct {
		packet []byte
		code   status
	}{
		"a header alone":              {question("", typeA)[:headerBytes], formatError},
		"a label that ends early":     {question("example.com", typeA)[:headerBytes+5], formatError},
		"no type":                     {question("example.com", typeA)[:headerBytes+13], formatError},
		"a compression pointer":       {append(question("", typeA)[:headerBytes], 0xc0, headerBytes, 0, typeA, 0, classIN), formatError},
		"a label of 64 bytes":         {change(headerBytes, 64), formatError},
		"a label with a reserved bit": {change(headerBytes, 0x80|7), formatError},
		"a name of 254 characters":    {question(long+strings.Repeat("d", 62), typeA), formatError},
		"no question":                 {change(5, 0), formatError},
		"two questions":               {change(5, 2), formatError},
		"an answer in a query":        {change(7, 1), formatError},
		"an authority in a query":     {change(9, 1), formatError},
		"a missing additional record": {change(11, 1), formatError},
		"two additional records":      {change(11, 2), formatError},
		"bytes after the question":    {append(question("example.com", typeA), 0), formatError},
		"another additional record":   {append(change(11, 1), 0, 0, typeTXT, 0, 1, 0, 0, 0, 0, 0, 0), formatError},
		"an OPT record with a name":   {append(change(11, 1), 1, 'a', 0, 0, typeOPT, 0, 1, 0, 0, 0, 0, 0, 0), formatError},
		"an OPT record cut short":     {append(change(11, 1), 0, 0, typeOPT, 0, 1, 0, 0, 0, 0, 0, 9), formatError},
		"an update":                   {change(2, 5<<3), notImplemented},
		"another class":               {change(headerBytes+16, 3), notImplemented},
	} {
		if got := f.ask(c.packet); got.code != int(c.code) || got.address != "" {
			t.Errorf("%s: %+v", title, got)
		}
	}
	if got := f.ask(question(long+strings.Repeat("d", 61), typeTXT)); got.code != int(noError) {
		t.Errorf("a name of 253 characters: %+v", got)
	}
}

func TestWhatIsNoQueryGetsNoAnswer(t *testing.T) {
	response := question("example.com", typeA)
	response[2] |= 0x80
	for _, packet := range [][]byte{nil, {1}, response[:headerBytes-1], response} {
		f := start(t, known)
		f.udp.Write(packet)
		f.udp.Write(question("single", typeA))
		if got := decode(t, f.receivePacket()); !strings.Contains(got.question, "single") {
			t.Errorf("%x was answered with %+v", packet, got)
		}
		f.sendTCP(packet)
		if n, err := f.tcp.Read(make([]byte, 1)); n != 0 || err != io.EOF {
			t.Errorf("%x: the connection stays open: %d, %v", packet, n, err)
		}
	}
}

func TestAConnectionCarriesManyQueries(t *testing.T) {
	f := start(t, known)
	for i := 0; i < 100; i++ {
		f.sendTCP(question("example.com", typeA))
	}
	for i := 0; i < 100; i++ {
		if got := decode(t, f.receiveTCP()); got.address != "127.64.0.2" {
			t.Fatalf("answer %d: %+v", i, got)
		}
	}
	f.tcp.Write([]byte{0x10, 0x01}) // the length of a message above the limit
	if n, err := f.tcp.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		t.Errorf("the connection stays open: %d, %v", n, err)
	}
}

func TestLookupsAtOnceAreBounded(t *testing.T) {
	var now, most atomic.Int32
	release := make(chan struct{})
	f := start(t, func(string) Answer {
		n := now.Add(1)
		for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
		}
		<-release
		now.Add(-1)
		return Answer{Kind: Found, Address: netip.MustParseAddr("127.64.0.2")}
	})
	const rest = 20 // queries that wait in the socket's buffer
	for i := 0; i < maxUnderWay+rest; i++ {
		f.udp.Write(question("example.com", typeA))
		for deadline := time.Now().Add(patience); i < maxUnderWay && int(now.Load()) <= i; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%d lookups are under way", now.Load())
			}
		}
	}
	// The answers are released one by one, because the client's buffer may be too small for all of them.
	for i := 0; i < maxUnderWay+rest; i++ {
		release <- struct{}{}
		f.receivePacket()
	}
	if most.Load() != maxUnderWay {
		t.Errorf("%d lookups at once", most.Load())
	}
}
