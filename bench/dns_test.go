package main

import (
	"strings"
	"testing"
	"time"
)

const dnsperfReport = `Statistics:

  Queries sent:         200000
  Queries completed:    199998 (100.00%)
  Queries lost:         2 (0.00%)

  Response codes:       NOERROR 199998 (100.00%)
  Average packet size:  request 32, response 48
  Run time (s):         2.000100
  Queries per second:   99994.000300
`

func TestDNSPerfReportIsRead(t *testing.T) {
	got, err := readDNSPerf(dnsperfReport, time.Second)
	if err != nil || got.lost != 2 || int(got.rate) != 99994 || got.perQuery < 5 || got.perQuery > 5.001 {
		t.Errorf("readDNSPerf: got %+v, %v; want 99994/s, 5 µs, 2 lost", got, err)
	}
	for _, c := range []struct{ old, new, want string }{
		{"NOERROR 199998", "NOERROR 100000 (50.00%), SERVFAIL 99998", "other answers"},
		{"NOERROR", "NXDOMAIN", "has no"},
		{"Queries per second", "QPS", "has no"},
	} {
		if _, err := readDNSPerf(strings.Replace(dnsperfReport, c.old, c.new, 1), time.Second); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.new, err, c.want)
		}
	}
}

func TestDNSRatiosAreToTheBetterOfTheRound(t *testing.T) {
	rate, cost := dnsVolleys{
		ours: []volley{{rate: 300, perQuery: 1}, {rate: 100, perQuery: 2}, {rate: 200, perQuery: 1}},
		one:  []volley{{rate: 100, perQuery: 4}, {rate: 100, perQuery: 3}, {rate: 50, perQuery: 9}},
		four: []volley{{rate: 150, perQuery: 2}, {rate: 50, perQuery: 6}, {rate: 50, perQuery: 5}},
	}.ratios()
	if rate != 2 || cost != 2 {
		t.Errorf("ratios: got %g and %g, want 2 and 2", rate, cost)
	}
}
