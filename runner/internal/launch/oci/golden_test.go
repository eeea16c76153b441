package oci

import (
	"bytes"
	"strings"
	"testing"

	"sandglass/runner/internal/golden"
	"sandglass/runner/internal/strictjson"
)

func TestJobsAndResultsAreThoseOfTheGoldenFiles(t *testing.T) {
	for _, name := range []string{"oci-prepare", "oci-prepare-nothing", "oci-start", "oci-end", "oci-sweep", "oci-find", "oci-resize", "oci-probe"} {
		golden.RoundTrip(t, name, &request{})
	}
	for _, name := range []string{"oci-result-done", "oci-result-failed", "oci-result-started", "oci-result-probed", "oci-result-found"} {
		golden.RoundTrip(t, name, &result{})
	}
	for _, name := range []string{"capture-disk", "capture-files", "capture-host"} {
		golden.RoundTrip(t, name, &captureJob{})
	}
	for _, name := range []string{"capture-result-done", "capture-result-refused"} {
		golden.RoundTrip(t, name, &captureResult{})
	}
}

func TestAJobWithBadInputIsRefusedBeforeAnythingIsDone(t *testing.T) {
	start := golden.Read(t, "oci-start")
	for name, c := range map[string]struct{ from, to, want string }{
		"no disk":                  {`"disk"`, `"disc"`, "unknown field"},
		"a layer without a target": {`"target": "/usr",`, ``, "start.layers[0].target is missing"},
		"no ids":                   {`"ids": [`, `"ids": null, "x": [`, "unknown field"},
		"null ids":                 {`"users": "/data/run/users"`, `"users": null`, "start.users is null"},
		"a negative limit":         {`"limit": 65536`, `"limit": -1`, "cannot unmarshal"},
		"a group that is text":     {`"thaw": {`, `"thaw": "0", "more": {`, "cannot unmarshal"},
		"a job of two documents":   {"\n}\n", "\n}{}\n", "data after the document"},
	} {
		document := strings.Replace(string(start), c.from, c.to, 1)
		if err := strictjson.Decode([]byte(document), &request{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
	if err := (&request{}).do(&prepareJob{}, &result{}); err == nil {
		t.Error("a job without a kind was done")
	}
	// A start without a runtime, of a launcher that has prepared none.
	if err := strictjson.Decode(bytes.TrimSpace(start), &request{}); err != nil {
		t.Error(err)
	}
}
