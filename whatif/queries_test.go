package whatif

import (
	"net/netip"
	"path/filepath"
	"testing"
	"time"

	"shuultuur/lib/dns"
)

// TestLogsOfNameServers reads the logs that name servers write of queries; each
// is recognised by its first lines.
func TestLogsOfNameServers(t *testing.T) {
	a, b := netip.MustParseAddr("192.168.1.21"), netip.MustParseAddr("fd00::5")
	type want struct {
		host    string
		qtype   uint16
		client  netip.Addr
		refused bool
	}
	for file, wants := range map[string][]want{
		"adguardhome.json": {{"www.ads.example", dns.TypeA, a, true}, {"other.example", dns.TypeAAAA, a, false}, {"www.google.com", dns.TypeA, b, false}},
		"pihole.log":       {{"www.ads.example", dns.TypeA, a, false}, {"other.example", 65, a, false}, {"last.example", 65535, b, false}},
		"unbound.log":      {{"www.ads.example", dns.TypeA, a, false}, {"other.example", dns.TypeAAAA, b, false}},
		"unbound-tags.log": {{"www.ads.example", dns.TypeA, a, false}, {"other.example", dns.TypeAAAA, b, false}},
		"unbound-both.log": {{"www.ads.example", dns.TypeA, a, false}, {"other.example", dns.TypeAAAA, b, false}, {"other.example", dns.TypeAAAA, b, false}},
		"dnsmasq.log":      {{"www.ads.example", dns.TypeA, a, false}, {"other.example", dns.TypeAAAA, b, false}},
		"blocky.log":       {{"www.ads.example", dns.TypeA, a, true}, {"other.example", dns.TypeAAAA, b, false}},
		"nextdns.csv":      {{"www.ads.example", dns.TypeA, a, true}, {"other.example", dns.TypeAAAA, b, false}},
		"technitium.csv":   {{"www.ads.example", dns.TypeA, a, true}, {"other.example", dns.TypeAAAA, b, false}},
		"technitium.log":   {{"www.ads.example", dns.TypeA, a, false}, {"other.example", dns.TypeAAAA, b, false}},
	} {
		s := &Source{Files: []string{filepath.Join("testdata", file)}, Zone: time.UTC}
		got := all(t, s)
		if in := s.Input(); len(got) != len(wants) || in.Broken > 0 {
			t.Fatalf("%s: got %d entries, want %d; the input was %+v", file, len(got), len(wants), in)
		}
		for i, w := range wants {
			if e := got[i]; e.Host != w.host || e.Question != w.qtype || e.Client != w.client || e.Refused != w.refused || e.Method != Lookup || file[0] != 'u' && e.Start.Year() < 2025 {
				t.Errorf("%s, entry %d: got %+v, want %+v", file, i, e, w)
			}
		}
	}
	now := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	if e, err := parseDnsmasq("Dec 31 23:59:59 dnsmasq[1]: query[A] x.example from 192.168.1.21", time.UTC, now); err != nil || e.Start.Year() != 2025 {
		t.Errorf("parsing a line of 31 December on 2 January gives the time %v and the error %v, want the year before", e.Start, err)
	}
}
