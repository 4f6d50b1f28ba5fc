package resolver

import (
	"context"
	"net/netip"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"shuultuur/filter"
	wire "shuultuur/lib/dns"
)

// TestTheGatewayFindsWhatItNeeds: where its own machine asks it, and only then, and it says what would
// have cut it off.
func TestTheGatewayFindsWhatItNeeds(t *testing.T) {
	j := &judge{verdicts: map[string]filter.Verdict{}}
	records := map[string][]string{}
	for _, name := range []string{"lists.example", "other.example", "x.lists.example", "0.debian.pool.ntp.org", "notpool.ntp.org"} {
		j.verdicts[name] = block(filter.NXDomain)
		records[name+". A"] = []string{name + ". 300 A 198.51.100.1"}
	}
	records["free.example. A"] = []string{"free.example. 300 A 198.51.100.1"}
	x := newRig(t, Config{}, Parts{Needs: []string{"Lists.Example.", "free.example"}}, j, records)
	for _, c := range []struct {
		from, name string
		passes     bool
	}{
		{"192.0.2.7", "lists.example", false},
		{"127.0.0.1", "lists.example", true},
		{"127.0.0.53", "LISTS.example", true},
		{"::1", "lists.example", true},
		{"::ffff:127.0.0.1", "lists.example", true},
		{"127.0.0.1", "other.example", false},
		{"127.0.0.1", "x.lists.example", false},
		{"127.0.0.1", "0.debian.pool.ntp.org", true},
		{"192.0.2.7", "0.debian.pool.ntp.org", false},
		{"127.0.0.1", "notpool.ntp.org", false},
		{"127.0.0.1", "free.example", true},
	} {
		q := query(t, c.name, dns.TypeA, x.now)
		q.Client = netip.AddrPortFrom(netip.MustParseAddr(c.from), 5353)
		a := &reply{}
		a.Start(q, make([]byte, 0, 1232), 1200)
		if x.r.Answer(q, &a.Reply, &a.T) == wire.Later {
			a.Start(q, a.Buf, 1200)
			x.r.Wait(context.Background(), q, &a.Reply, &a.T)
		}
		if got := a.Rcode == dns.RcodeSuccess && a.Answers == 1; got != c.passes {
			t.Errorf("%s from %s: %v, want %v", c.name, c.from, got, c.passes)
		}
		record := x.r.Record(q, &a.Reply, &a.T)
		evidence := record.Verdict.Reason.Finding.Evidence
		if needed := c.passes && c.name != "free.example"; strings.Contains(evidence, "would be refused by pupils/rule") != needed {
			t.Errorf("%s from %s: the record says %q", c.name, c.from, evidence)
		}
	}
	problems := x.r.Problems()
	if len(problems) != 2 || !strings.Contains(problems[1], "lists.example would be refused by pupils/rule") {
		t.Errorf("the problems are %q", problems)
	}
}
