package main

import "testing"

func TestTheYoungestGroupIsInTheForeground(t *testing.T) {
	const shell, since = 10, 500
	own := procStat{pid: shell, group: shell, started: 100}
	earlier := procStat{pid: 11, parent: shell, group: 11, started: 400}
	background := procStat{pid: 12, parent: shell, group: 12, started: 501}
	foreground := procStat{pid: 13, parent: shell, group: 13, started: 501}
	deeper := procStat{pid: 14, parent: 13, group: 13, started: 600}
	for _, c := range []struct {
		processes []procStat
		want      int
	}{
		{[]procStat{own}, shell},
		{[]procStat{own, earlier}, shell},
		{[]procStat{own, earlier, background}, 12},
		{[]procStat{own, earlier, background, foreground, deeper}, 13},
	} {
		if got := youngestGroup(c.processes, shell, since); got != c.want {
			t.Errorf("%v: %d in place of %d", c.processes, got, c.want)
		}
	}
}
