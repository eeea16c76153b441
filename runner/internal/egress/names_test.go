package egress

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"sandglass/runner/internal/wire"
)

func TestWithoutAControlStreamNamesFail(t *testing.T) {
	f := open(t, nil)
	if got := f.resolve("example.com"); got != "SERVFAIL" {
		t.Errorf("before: %s", got)
	}
	if got := f.resolve("localhost"); got != "127.0.0.1" {
		t.Errorf("localhost: %s", got)
	}
	c := f.connect(1)
	f.allowed(c, "example.com", tlsPort)
	pending := f.start("under-way.example")
	c.expect("resolve")
	c.conn.Close()
	if got := pending(); got != "SERVFAIL" {
		t.Errorf("under way: %s", got)
	}
	if got := f.resolve("example.com"); got != "SERVFAIL" {
		t.Errorf("after: %s", got)
	}
}

func TestEachNameHasAnAddressOfItsOwnAndRefusedNamesShareOne(t *testing.T) {
	f := open(t, nil)
	c := f.connect(1)
	first, second := f.options.FirstName.String(), f.options.FirstName.Next().String()
	if got := f.allowed(c, "a.example", tlsPort); got != first {
		t.Errorf("first: %s", got)
	}
	if got := f.allowed(c, "b.example", tlsPort, webPort); got != second {
		t.Errorf("second: %s", got)
	}
	for answer, want := range map[string]string{answerRefused: f.options.Refused.String(), answerMissing: "NXDOMAIN", answerFailed: "SERVFAIL"} {
		name := answer + ".example"
		got := f.start(name)
		c.answer(name, 1, answer)
		if got := got(); got != want {
			t.Errorf("%s: %s", answer, got)
		}
	}
	// All but the failure are cached: no other question is asked.
	for name, want := range map[string]string{"a.example": first, "B.Example": second, "refused.example": f.options.Refused.String(), "nxdomain.example": "NXDOMAIN"} {
		if got := f.resolve(name); got != want {
			t.Errorf("%s again: %s", name, got)
		}
	}
	f.start("failed.example")
	c.answer("failed.example", 1, answerFailed)
}

func TestConnectionsSayWhatWasDialled(t *testing.T) {
	f := open(t, nil)
	c := f.connect(1)
	address := f.allowed(c, "a.example", tlsPort, webPort)
	for _, x := range []struct {
		address, name, via string
		port, announced    int
	}{
		{address, "a.example", viaName, tlsPort, tlsPort},
		{address, "a.example", viaName, webPort, webPort},
		{f.options.Refused.String(), "", viaRefused, webPort, webPort},
		{f.options.HTTPProxy.Addr().String(), "", viaHTTPProxy, int(f.options.HTTPProxy.Port()), 0},
		{f.options.Socks.Addr().String(), "", viaSocks, int(f.options.Socks.Port()), 0},
	} {
		f.program(x.address, x.port)
		m := c.expect("connection")
		if m["name"] != x.name || m["via"] != x.via || m["port"] != float64(x.announced) {
			t.Errorf("%+v: %v", x, m)
		}
	}
}

func TestOneQuestionIsAskedForManyQueries(t *testing.T) {
	f := open(t, nil)
	c := f.connect(1)
	var answers []func() string
	for i := 0; i < 50; i++ {
		answers = append(answers, f.start("example.com"))
	}
	c.answer("example.com", 1, answerAddress, tlsPort)
	for _, answer := range answers {
		if got := answer(); got != f.options.FirstName.String() {
			t.Fatalf("got %s", got)
		}
	}
	f.start("other.example")
	c.answer("other.example", 1, answerRefused)
}

func TestANewGenerationAsksAgain(t *testing.T) {
	f := open(t, nil)
	c := f.connect(1)
	address := f.allowed(c, "a.example", tlsPort)
	refused := f.start("b.example")
	c.answer("b.example", 1, answerRefused)
	refused()

	f.configure(c, 2)
	changed := f.start("a.example")
	c.answer("a.example", 2, answerAddress, webPort)
	if got := changed(); got != address {
		t.Errorf("a.example has another address: %s", got)
	}
	f.program(address, webPort)
	if m := c.expect("connection"); m["port"] != float64(webPort) {
		t.Errorf("got %v", m)
	}
	if conn, err := net.Dial("tcp4", netip.AddrPortFrom(netip.MustParseAddr(address), tlsPort).String()); err == nil {
		conn.Close()
		t.Error("the port that the policy no longer names is open")
	}
	allowed := f.start("b.example")
	c.answer("b.example", 2, answerAddress, tlsPort)
	if got := allowed(); got != f.options.FirstName.Next().String() {
		t.Errorf("b.example: %s", got)
	}

	f.configure(c, 3)
	gone := f.start("a.example")
	c.answer("a.example", 3, answerRefused)
	gone()
	if conn, err := net.Dial("tcp4", netip.AddrPortFrom(netip.MustParseAddr(address), webPort).String()); err == nil {
		conn.Close()
		t.Error("a name that is refused still listens")
	}
	f.configure(c, 4)
	back := f.start("a.example")
	c.answer("a.example", 4, answerAddress, webPort)
	if got := back(); got == address || got == "SERVFAIL" {
		t.Errorf("an address was used again: %s", got)
	}
}

func TestAnAnswerOfAnEarlierGenerationIsUsedOnce(t *testing.T) {
	f := open(t, nil)
	c := f.connect(1)
	got := f.start("a.example")
	m := c.expect("resolve")
	f.configure(c, 2)
	c.send("resolved", wire.Fields{"query": m["query"], "generation": 1, "answer": answerRefused})
	if got := got(); got != f.options.Refused.String() {
		t.Errorf("got %s", got)
	}
	again := f.start("a.example")
	c.answer("a.example", 2, answerMissing)
	if got := again(); got != "NXDOMAIN" {
		t.Errorf("again: %s", got)
	}
}

func TestAnAnswerThatNeverComesIsAFailure(t *testing.T) {
	f := open(t, func(o *Options) { o.LookupTimeout = 20 * time.Millisecond })
	c := f.connect(1)
	got := f.start("a.example")
	late := c.expect("resolve")
	if got := got(); got != "SERVFAIL" {
		t.Errorf("got %s", got)
	}
	c.send("resolved", wire.Fields{"query": late["query"], "generation": 1, "answer": answerRefused})
	f.start("b.example")
	if m := c.expect("resolve"); m["name"] != "b.example" {
		t.Errorf("got %v", m)
	}
}

func TestNamesWithAnAddressAreBounded(t *testing.T) {
	f := open(t, func(o *Options) { o.MaxNames = 2 })
	c := f.connect(1)
	f.allowed(c, "a.example", tlsPort)
	f.allowed(c, "b.example", tlsPort)
	if got := f.allowed(c, "c.example", tlsPort); got != "SERVFAIL" {
		t.Errorf("the third name: %s", got)
	}
	if got := f.resolve("a.example"); got != f.options.FirstName.String() {
		t.Errorf("the first name: %s", got)
	}
	// A name that the policy no longer allows makes room.
	f.configure(c, 2)
	got := f.start("a.example")
	c.answer("a.example", 2, answerRefused)
	got()
	if got := f.allowed(c, "c.example", tlsPort); got != f.options.FirstName.Next().Next().String() {
		t.Errorf("the third name afterwards: %s", got)
	}
}

func TestANameWithTooManyPortsFails(t *testing.T) {
	f := open(t, nil)
	c := f.connect(1)
	ports := make([]int, maxPorts+1)
	for i := range ports {
		ports[i] = 20000 + i
	}
	if got := f.allowed(c, "a.example", ports...); got != "SERVFAIL" {
		t.Errorf("got %s", got)
	}
	if got := f.allowed(c, "b.example", tlsPort); got != f.options.FirstName.String() {
		t.Errorf("another name: %s", got)
	}
}

func TestTheCacheIsBounded(t *testing.T) {
	l := newLookups(time.Minute)
	l.begin(&control{}, 1)
	for i := 0; i < maxAnswers+10; i++ {
		l.keep(string(rune('a'+i%26))+string(rune(i)), answer{kind: answerRefused})
	}
	if len(l.answers) != maxAnswers {
		t.Errorf("%d answers are cached", len(l.answers))
	}
}

func TestAPortThatAProgramHasBoundFailsUntilItIsFree(t *testing.T) {
	f := open(t, nil)
	c := f.connect(1)
	wildcard, err := net.Listen("tcp4", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	port := wildcard.Addr().(*net.TCPAddr).Port
	got := f.start("a.example")
	c.answer("a.example", 1, answerAddress, tlsPort, port)
	if m := c.expect("bind_failed"); m["name"] != "a.example" || m["port"] != float64(port) || m["message"] == "" {
		t.Errorf("got %v", m)
	}
	if got := got(); got != "SERVFAIL" {
		t.Errorf("got %s", got)
	}
	if got := f.resolve("a.example"); got != "SERVFAIL" { // it is not reported again
		t.Errorf("again: %s", got)
	}
	wildcard.Close()
	address := f.resolve("a.example")
	f.program(address, port)
	if m := c.expect("connection"); m["port"] != float64(port) {
		t.Errorf("got %v", m)
	}
}

func TestAnAddressInUseFailsTheStart(t *testing.T) {
	f := open(t, nil)
	second := New(f.options)
	if err := second.Open(); err == nil {
		t.Error("two DNS servers at one address")
	}
	f.Close()
	third := New(f.options)
	if err := third.Open(); err != nil {
		t.Errorf("after Close: %v", err)
	}
	third.Close()
}

func TestProtocolViolationsEndTheControlStream(t *testing.T) {
	f := open(t, nil)
	for title, lines := range map[string][]wire.Fields{
		"no config":            {{"type": "refuse", "connection": 1}},
		"an unknown type":      {{"type": "config", "generation": 1}, {"type": "nonsense"}},
		"a negative number":    {{"type": "config", "generation": -1}},
		"an unknown answer":    {{"type": "config", "generation": 1}, {"type": "resolved", "query": 1, "generation": 1, "answer": "yes"}},
		"a port out of range":  {{"type": "config", "generation": 1}, {"type": "resolved", "query": 1, "generation": 1, "answer": "address", "ports": []int{65536}}},
		"text for a port":      {{"type": "config", "generation": 1}, {"type": "resolved", "query": 1, "generation": 1, "answer": "address", "ports": []string{"80"}}},
		"a fraction of a port": {{"type": "config", "generation": 1}, {"type": "resolved", "query": 1, "generation": 1, "answer": "address", "ports": []float64{1.5}}},
	} {
		c, _ := f.stream("control", nil)
		for _, line := range lines {
			c.send(line["type"].(string), line)
		}
		if m := c.next(); m["type"] != "error" || m["code"] != wire.CodeInvalidRequest {
			t.Errorf("%s: %v", title, m)
		}
		if m := c.next(); m != nil {
			t.Errorf("%s: the stream goes on with %v", title, m)
		}
		if got := f.resolve("example.com"); got != "SERVFAIL" {
			t.Errorf("%s: %s", title, got)
		}
	}
}
