package shell

import (
	"testing"

	"sandglass/runner/internal/procfs"
)

func TestTheYoungestGroupIsInTheForeground(t *testing.T) {
	const shell, since = 10, 500
	own := procfs.Process{PID: shell, Group: shell, Started: 100}
	earlier := procfs.Process{PID: 11, Parent: shell, Group: 11, Started: 400}
	background := procfs.Process{PID: 12, Parent: shell, Group: 12, Started: 501}
	foreground := procfs.Process{PID: 13, Parent: shell, Group: 13, Started: 501}
	deeper := procfs.Process{PID: 14, Parent: 13, Group: 13, Started: 600}
	for _, c := range []struct {
		processes []procfs.Process
		want      int
	}{
		{[]procfs.Process{own}, shell},
		{[]procfs.Process{own, earlier}, shell},
		{[]procfs.Process{own, earlier, background}, 12},
		{[]procfs.Process{own, earlier, background, foreground, deeper}, 13},
	} {
		if got := youngestGroup(c.processes, shell, since); got != c.want {
			t.Errorf("%v: %d in place of %d", c.processes, got, c.want)
		}
	}
}
