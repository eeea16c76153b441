package egress

import (
	"encoding/json"
	"os"
	"testing"

	"sandglass/runner/internal/wire"
)

// golden returns the bytes of a golden file, which the tests of the egress process read, too.
func golden(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile("../../testdata/egress-" + name + ".bin")
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func TestTheMessagesAreThoseOfTheGoldenFiles(t *testing.T) {
	f := open(t, nil)
	c, _ := f.stream("control", nil)
	c.conn.Write([]byte(golden(t, "config")))
	f.eventually("the configuration is in use", func() bool {
		f.lookups.mu.Lock()
		defer f.lookups.mu.Unlock()
		return f.lookups.control != nil && f.lookups.generation == 1
	})
	receives := func(name string) {
		t.Helper()
		if line, err := c.in.Line(); string(line)+"\n" != golden(t, name) {
			t.Errorf("%s: got %q, %v", name, line, err)
		}
	}
	address := f.start("example.com")
	receives("resolve")
	c.conn.Write([]byte(golden(t, "resolved")))
	first := f.program(address(), 8443)
	receives("connection")
	refused := f.start("refused.example")
	c.expect("resolve")
	c.conn.Write([]byte(golden(t, "refused")))
	second := f.program(refused(), tlsPort)
	c.expect("connection")
	c.conn.Write([]byte(golden(t, "refuse")))
	if err := isReset(second); err != nil {
		t.Error(err)
	}
	third, _ := f.connected(c)
	third.Close()
	receives("closed")

	request := wire.Fields{}
	if err := json.Unmarshal([]byte(golden(t, "take")), &request); err != nil {
		t.Fatal(err)
	}
	stream := f.take(request["connection"])
	first.Close()
	if got := stream.all(); got != "" {
		t.Errorf("the stream has %q", got)
	}
}
