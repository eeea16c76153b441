package microvm

import (
	"strings"
	"testing"

	"sandglass/runner/internal/golden"
	"sandglass/runner/internal/strictjson"
)

func TestJobsAndResultsAreThoseOfTheGoldenFiles(t *testing.T) {
	golden.RoundTrip(t, "vm-job", &vmJob{})
	golden.RoundTrip(t, "vm-job-least", &vmJob{})
	golden.RoundTrip(t, "vm-result-started", &vmResult{})
	golden.RoundTrip(t, "vm-result-failed", &vmResult{})
	golden.RoundTrip(t, "snapshot-job", &snapshotJob{})
}

func TestAJobWithBadInputIsRefused(t *testing.T) {
	job := string(golden.Read(t, "vm-job"))
	for name, c := range map[string]struct{ from, to, want string }{
		"no argv": {`"argv"`, `"arguments"`, "unknown field"},
		"a file without its mode": {`,
      "write": false`, ``, "files[0].write is missing"},
		"a jail without an id":     {`"id": 267386880,`, ``, "jail.id is missing"},
		"a share with another uid": {`"root_id": 267386880`, `"root_id": "0"`, "cannot unmarshal string"},
	} {
		if err := strictjson.Decode([]byte(strings.Replace(job, c.from, c.to, 1)), &vmJob{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}
