package resolver

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"

	miekg "github.com/miekg/dns"
	"go.yaml.in/yaml/v4"

	"shuultuur/filter"
	"shuultuur/lib/dns"
	"shuultuur/lib/setting"
)

func prefix64(t testing.TB, text string) DNS64 {
	t.Helper()
	var d DNS64
	if err := yaml.Unmarshal([]byte(text), &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// The addresses are those of the table in RFC 6052 section 2.4.
func TestAddressesStandForOthersAsRFC6052Says(t *testing.T) {
	v4 := netip.MustParseAddr("192.0.2.33")
	for prefix, want := range map[string]string{
		"2001:db8::/32":           "2001:db8:c000:221::",
		"2001:db8:100::/40":       "2001:db8:1c0:2:21::",
		"2001:db8:122::/48":       "2001:db8:122:c000:2:2100::",
		"2001:db8:122:300::/56":   "2001:db8:122:3c0:0:221::",
		"2001:db8:122:344::/64":   "2001:db8:122:344:c0:2:2100::",
		"2001:db8:122:344::/96":   "2001:db8:122:344::192.0.2.33",
		"true":                    "64:ff9b::192.0.2.33",
		"64:ff9b:1:fffe::/96":     "64:ff9b:1:fffe::192.0.2.33",
		`"2001:db8:122:344::/96"`: "2001:db8:122:344::c000:221",
	} {
		d := prefix64(t, prefix)
		if err := d.check(); err != nil {
			t.Errorf("%s: %v", prefix, err)
		}
		got := d.embed(v4.As4())
		if got != netip.MustParseAddr(want) || d.embeddedIPv4(got) != v4 {
			t.Errorf("prefix %s: embed gave %v, embeddedIPv4 %v; want %s", prefix, got, d.embeddedIPv4(got), want)
		}
		if other := netip.MustParseAddr("2001:db9::1"); d.embeddedIPv4(other) != other {
			t.Errorf("prefix %s: embeddedIPv4(%v) = %v, want the address itself", prefix, other, d.embeddedIPv4(other))
		}
	}
	for bad, why := range map[string]string{
		"10.0.0.0/8": "not a prefix of IPv6", "::ffff:0:0/96": "not a prefix of IPv6", "2001:db8::/63": "length", "2001:db8::1/96": "beyond its length",
		"2001:db8:0:0:ff00::/96": "64 to 71",
	} {
		_, err := New(Config{DNS64: DNS64{netip.MustParsePrefix(bad)}}, newRig(t, Config{}, Parts{}, &judge{}, nil).r.parts)
		var at *setting.Error
		if !errors.As(err, &at) || !strings.Contains(err.Error(), why) {
			t.Errorf("prefix %s: got error %v", bad, err)
		}
	}
	if d := prefix64(t, "false"); d.IsValid() {
		t.Errorf("the setting false gives the prefix %v, want none", d)
	}
	var d DNS64
	if err := yaml.Unmarshal([]byte("nearly"), &d); err == nil || !strings.Contains(err.Error(), "neither") {
		t.Errorf("the setting nearly: got error %v", err)
	}
}

func TestNamesWithoutIPv6AddressesGetSynthesisedOnes(t *testing.T) {
	records := map[string][]string{
		"four.com. A":                  {"four.com. 300 IN A 9.9.9.9", "four.com. 300 IN A 9.9.9.10"},
		"long.com. A":                  {"long.com. 3000 IN A 9.9.9.9"},
		"short.com. A":                 {"short.com. 20 IN A 9.9.9.9"},
		"both.com. A":                  {"both.com. 300 IN A 9.9.9.9"},
		"both.com. AAAA":               {"both.com. 300 IN AAAA 2001:db9::1"},
		"mapped.com. A":                {"mapped.com. 3000 IN A 9.9.9.9"},
		"mapped.com. AAAA":             {"mapped.com. 300 IN AAAA ::ffff:9.9.9.8"},
		"some.com. AAAA":               {"some.com. 300 IN AAAA ::ffff:9.9.9.8", "some.com. 300 IN AAAA 2001:db9::1"},
		"gone.com. AAAA":               {"NXDOMAIN"},
		"alias.com. AAAA":              {"alias.com. 300 IN CNAME four.com."},
		"alias.com. A":                 {"alias.com. 300 IN CNAME four.com.", "four.com. 300 IN A 9.9.9.9"},
		"cloaked.com. A":               {"cloaked.com. 300 IN CNAME x.tracker.net.", "x.tracker.net. 300 IN A 9.9.9.9"},
		"bad.com. A":                   {"bad.com. 300 IN A 9.9.9.66"},
		"badsix.com. AAAA":             {"badsix.com. 300 IN AAAA 64:ff9b::9.9.9.66", "badsix.com. 300 IN AAAA 2001:67c:1::9.9.9.66"},
		"rebind.com. A":                {"rebind.com. 300 IN A 192.168.1.1"},
		"rebind6.com. AAAA":            {"rebind6.com. 300 IN AAAA 2001:67c:1::10.0.0.1", "rebind6.com. 300 IN AAAA 64:ff9b::10.0.0.1"},
		"test.com. A":                  {"test.com. 300 IN A 203.0.113.7"},
		"nas.home.lan. A":              {"nas.home.lan. 300 IN A 192.168.1.2"},
		"safe.google.com. A":           {"safe.google.com. 300 IN A 9.9.9.20"},
		"9.9.9.9.in-addr.arpa. PTR":    {"9.9.9.9.in-addr.arpa. 300 IN PTR four.com."},
		"1.1.1.10.in-addr.arpa. PTR":   {"1.1.1.10.in-addr.arpa. 300 IN PTR secret.example."},
		"66.9.9.9.in-addr.arpa. PTR":   {"66.9.9.9.in-addr.arpa. 300 IN PTR bad.com."},
		reverseText("2001:db9::1 PTR"): {reverseText("2001:db9::1") + " 300 IN PTR both.com."},
	}
	j := &judge{verdicts: map[string]filter.Verdict{
		"tracker.net": block(filter.NXDomain), "9.9.9.66": block(filter.NXDomain), "blocked.com": block(filter.Zero), "google.com": safe("safe.google.com"),
		"66.9.9.9.in-addr.arpa": block(filter.NXDomain),
	}}
	const own = "2001:67c:1::/96"
	for _, c := range []struct {
		prefix, name string
		qtype        uint16
		want         string
		ttl          uint32 // of the last answer; 0: any
	}{
		{"true", "four.com", miekg.TypeAAAA, "NOERROR, AAAA 64:ff9b::909:909, AAAA 64:ff9b::909:90a", 300},
		{own, "four.com", miekg.TypeAAAA, "NOERROR, AAAA 2001:67c:1::909:909, AAAA 2001:67c:1::909:90a", 300},
		{"false", "four.com", miekg.TypeAAAA, "NOERROR, +SOA", 0},
		{"true", "four.com", miekg.TypeA, "NOERROR, A 9.9.9.9, A 9.9.9.10", 300},
		{"true", "long.com", miekg.TypeAAAA, "NOERROR, AAAA 64:ff9b::909:909", 300},   // the SOA's minimum
		{"true", "short.com", miekg.TypeAAAA, "NOERROR, AAAA 64:ff9b::909:909", 20},   // the A record's
		{"true", "mapped.com", miekg.TypeAAAA, "NOERROR, AAAA 64:ff9b::909:909", 600}, // there is no SOA
		{"true", "both.com", miekg.TypeAAAA, "NOERROR, AAAA 2001:db9::1", 300},
		{"true", "some.com", miekg.TypeAAAA, "NOERROR, AAAA 2001:db9::1", 300},
		{"true", "gone.com", miekg.TypeAAAA, "NXDOMAIN, +SOA", 0},
		{"true", "none.com", miekg.TypeAAAA, "NOERROR, +SOA", 0},
		{"true", "alias.com", miekg.TypeAAAA, "NOERROR, CNAME four.com., AAAA 64:ff9b::909:909, AAAA 64:ff9b::909:90a", 300}, // an upstream that does not follow
		{"true", "blocked.com", miekg.TypeAAAA, "NOERROR, AAAA ::, EDE 15", 0},
		{"true", "cloaked.com", miekg.TypeAAAA, "NXDOMAIN, +SOA, EDE 15", 0},
		{"true", "bad.com", miekg.TypeAAAA, "NXDOMAIN, +SOA, EDE 15", 0},
		{own, "bad.com", miekg.TypeAAAA, "NXDOMAIN, +SOA, EDE 15", 0},
		{own, "badsix.com", miekg.TypeAAAA, "NXDOMAIN, +SOA, EDE 15", 0},
		{own, "rebind.com", miekg.TypeAAAA, "NOERROR, +SOA, EDE 15", 0},
		{"true", "rebind.com", miekg.TypeAAAA, "NOERROR, +SOA, EDE 15", 0},
		{own, "rebind6.com", miekg.TypeAAAA, "NOERROR, +SOA, EDE 15", 0},
		{"fd00:64::/96", "four.com", miekg.TypeAAAA, "NOERROR, AAAA fd00:64::909:909, AAAA fd00:64::909:90a", 300}, // not a rebinding
		{"true", "test.com", miekg.TypeAAAA, "NOERROR, +SOA", 0},
		{own, "test.com", miekg.TypeAAAA, "NOERROR, AAAA 2001:67c:1::cb00:7107", 300},
		{"true", "nas.home.lan", miekg.TypeAAAA, "NOERROR, +SOA", 0},
		{own, "nas.home.lan", miekg.TypeAAAA, "NOERROR, AAAA 2001:67c:1::c0a8:102", 300},
		{own, "www.google.com", miekg.TypeAAAA, "NOERROR, CNAME safe.google.com., AAAA 2001:67c:1::909:914", 300},
		{own, "printer.lan", miekg.TypeAAAA, "NOERROR, AAAA 2001:67c:1::a00:9", 0},
		{"true", "printer.lan", miekg.TypeAAAA, "NOERROR, +SOA", 0},
		{"true", "ipv4only.arpa", miekg.TypeAAAA, "NOERROR, AAAA 64:ff9b::c000:aa, AAAA 64:ff9b::c000:ab", 0},
		{"2001:db9::/32", "ipv4only.arpa", miekg.TypeAAAA, "NOERROR, AAAA 2001:db9:c000:aa::, AAAA 2001:db9:c000:ab::", 0},
		{"true", "ipv4only.arpa", miekg.TypeA, "NOERROR, A 192.0.0.170, A 192.0.0.171", 0},
		{"true", "ipv4only.arpa", miekg.TypeMX, "NOERROR, +SOA", 0},
		{"true", "x.ipv4only.arpa", miekg.TypeAAAA, "NXDOMAIN, +SOA", 0},
		{"true", "170.0.0.192.in-addr.arpa", miekg.TypePTR, "NOERROR, PTR ipv4only.arpa.", 0},
		{"true", reverseText("64:ff9b::9.9.9.9"), miekg.TypePTR, "NOERROR, CNAME 9.9.9.9.in-addr.arpa., PTR four.com.", 0},
		{own, reverseText("2001:67c:1::9.9.9.9"), miekg.TypePTR, "NOERROR, CNAME 9.9.9.9.in-addr.arpa., PTR four.com.", 0},
		{"fd00:64::/96", reverseText("fd00:64::9.9.9.9"), miekg.TypePTR, "NOERROR, CNAME 9.9.9.9.in-addr.arpa., PTR four.com.", 0},
		{own, reverseText("2001:67c:1::10.0.0.9"), miekg.TypePTR, "NOERROR, CNAME 9.0.0.10.in-addr.arpa., PTR printer.lan.", 0},
		{own, reverseText("2001:67c:1::10.1.1.1"), miekg.TypePTR, "NXDOMAIN, +SOA", 0}, // stays here
		{own, reverseText("2001:67c:1::9.9.9.66"), miekg.TypePTR, "NXDOMAIN, +SOA, EDE 15", 0},
		{own, reverseText("2001:db9::1"), miekg.TypePTR, "NOERROR, PTR both.com.", 300},
	} {
		x := newRig(t, Config{DNS64: prefix64(t, c.prefix), Private: []string{"home.lan"}, Hosts: map[string]setting.OneOrMore[string]{"printer.lan": {"10.0.0.9"}}}, Parts{Addresses: true}, j, records)
		for _, how := range []string{"fetched", "kept"} {
			m, _, _ := x.ask(c.name, c.qtype)
			if got := summary(m); got != c.want {
				t.Errorf("%s, %s %s %s: got %s, want %s", how, c.prefix, c.name, miekg.TypeToString[c.qtype], got, c.want)
			} else if n := len(m.Answer); c.ttl != 0 && m.Answer[n-1].Header().Ttl != c.ttl {
				t.Errorf("%s, %s %s: got TTL %d, want %d", how, c.prefix, c.name, m.Answer[n-1].Header().Ttl, c.ttl)
			}
		}
		for name := range x.net.asked {
			if strings.Contains(name, "ipv4only") || strings.Contains(name, "10.in-addr") {
				t.Errorf("%s %s: an upstream got the query for %s", c.prefix, c.name, name)
			}
		}
	}
}

// reverseText returns the reverse name of an address.
func reverseText(address string) string {
	address, typ, found := strings.Cut(address, " ")
	name := dns.Text(dns.Reverse(netip.MustParseAddr(address)))
	if found {
		name += " " + typ
	}
	return name
}

func TestValidatingClientsGetNoSynthesisedAnswers(t *testing.T) {
	x := newRig(t, Config{DNS64: DNS64{nat64}}, Parts{Validated: true}, &judge{}, map[string][]string{"four.com. A": {"four.com. 300 IN A 9.9.9.9"}, "none.com. A": {}})
	plain := x.store.upstream
	x.store.upstream = func(ctx context.Context, name []byte, qtype, class uint16, do, cd bool) ([]byte, uint16, error) {
		if qtype == miekg.TypeAAAA && dns.Text(name) == "bogus.com." {
			return nil, 6, errors.New("bogus")
		}
		msg, ede, err := plain(ctx, name, qtype, class, do, cd)
		if err == nil {
			msg[3] |= 0x20 // AD: answers that upstreams call secure
		}
		return msg, ede, err
	}
	x.net.records["bogus.com. A"] = []string{"bogus.com. 300 IN A 9.9.9.9"}
	for _, c := range []struct {
		name   string
		do, cd bool
		want   string
		ad     bool
	}{
		{"four.com", true, true, "NOERROR, +SOA", true},
		{"four.com", true, false, "NOERROR, AAAA 64:ff9b::909:909", false},
		{"four.com", false, true, "NOERROR, AAAA 64:ff9b::909:909", false},
		{"none.com", true, false, "NOERROR, +SOA", true}, // nothing was synthesised
		{"bogus.com", false, false, "SERVFAIL, EDE 6", false},
	} {
		for range 2 {
			q := query(t, c.name, miekg.TypeAAAA, x.now)
			q.DO = c.do
			if c.cd {
				q.Flags |= 0x10
			}
			a := &reply{}
			a.Start(q, nil, 1200)
			if x.r.Answer(q, &a.Reply, &a.T) == dns.Later {
				a.Start(q, a.Buf, 1200)
				x.r.Wait(context.Background(), q, &a.Reply, &a.T)
			}
			ad := a.AD
			m := new(miekg.Msg)
			if err := m.Unpack(a.Finish(&dns.Options{Size: 1232, Max: 1232})); err != nil {
				t.Fatal(err)
			}
			if got := summary(m); got != c.want || ad != c.ad {
				t.Errorf("%s, DO %v, CD %v: got %s, AD %v; want %s, %v", c.name, c.do, c.cd, got, ad, c.want, c.ad)
			}
		}
	}
	// Without validation, a failure of the query for AAAA records does not prevent synthesis.
	x.r.parts.Validated = false
	if m, _, _ := x.ask("bogus.com", miekg.TypeAAAA); summary(m) != "NOERROR, AAAA 64:ff9b::909:909" {
		t.Errorf("AAAA of bogus.com: got %s, want an address made from its A record", summary(m))
	}
}

func TestSynthesisedAnswersAreKept(t *testing.T) {
	x := newRig(t, Config{DNS64: DNS64{nat64}}, Parts{Addresses: true}, &judge{}, map[string][]string{
		"four.com. A": {"four.com. 300 IN A 9.9.9.9"}, "six.com. AAAA": {"six.com. 300 IN AAAA 2001:db9::1"}})
	for _, name := range []string{"four.com", "six.com"} {
		x.ask(name, miekg.TypeAAAA)
		q := query(t, name, miekg.TypeAAAA, x.now)
		a, buf := &reply{}, make([]byte, 0, 4096)
		n := testing.AllocsPerRun(200, func() {
			a.Start(q, buf, 1200)
			if out := x.r.Answer(q, &a.Reply, &a.T); out != dns.Answered {
				t.Fatalf("%s: Answer returned outcome %d", name, out)
			}
		})
		if n != 0 {
			t.Errorf("%s: %v allocations per query, want none", name, n)
		}
	}
	if a, six := x.net.count("four.com. A"), x.net.count("four.com. AAAA"); a != 1 || six != 1 {
		t.Errorf("upstream got %d queries for A, %d for AAAA; want 1 of each", a, six)
	}
	// With another prefix, the same store gives another answer.
	parts := x.r.parts
	r, err := New(Config{DNS64: prefix64(t, "2001:67c:1::/96")}, parts)
	if err != nil {
		t.Fatal(err)
	}
	x.r = r
	if m, _, _ := x.ask("four.com", miekg.TypeAAAA); summary(m) != "NOERROR, AAAA 2001:67c:1::909:909" {
		t.Errorf("AAAA of four.com: got %s, want the kept address", summary(m))
	}
}
