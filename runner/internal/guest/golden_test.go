package guest

import (
	"encoding/json"
	"strings"
	"testing"

	"sandglass/runner/internal/golden"
)

func TestMessagesAreThoseOfTheGoldenFiles(t *testing.T) {
	golden.RoundTrip(t, "guest-config", &config{})
	golden.RoundTrip(t, "guest-settings", &settings{})
	for _, name := range []string{"guest-request-stats", "guest-request-clock", "guest-request-end"} {
		golden.RoundTrip(t, name, &request{})
	}
	golden.RoundTrip(t, "guest-started", &started{})
	golden.RoundTrip(t, "guest-failed", &started{})
	golden.RoundTrip(t, "guest-stats", &statsReply{})
	golden.RoundTrip(t, "guest-exit", &exitReason{})
}

func TestTheConsoleLinesAreThoseOfTheGoldenFile(t *testing.T) {
	want := map[string]string{}
	if err := json.Unmarshal(golden.Read(t, "guest-console"), &want); err != nil {
		t.Fatal(err)
	}
	reason := &exitReason{}
	if err := json.Unmarshal(golden.Read(t, "guest-exit"), reason); err != nil {
		t.Fatal(err)
	}
	for name, message := range map[string]string{"booted": bootedMessage, "waiting": waitingMessage, "exit": reason.line()} {
		if got := consolePrefix + message; got != want[name] {
			t.Errorf("%s: the guest prints %q, the golden file has %q", name, got, want[name])
		}
	}
}

func TestAConfigurationWithBadInputIsRefused(t *testing.T) {
	whole := string(golden.Read(t, "guest-config"))
	if _, err := parseConfig([]byte(whole)); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ from, to, want string }{
		"another type":         {`"type": "config"`, `"type": "stats"`, `type "stats" instead of config`},
		"no runner":            {`"runner"`, `"r"`, "unknown field"},
		"no limits":            {`"pids": 160,`, ``, "limits.pids is missing"},
		"entropy of no base64": {`"AAECAw`, `"*`, "illegal base64"},
		"a share without tag":  {`"tag": "share0",`, ``, "shares[0].tag is missing"},
	} {
		if _, err := parseConfig([]byte(strings.Replace(whole, c.from, c.to, 1))); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}
