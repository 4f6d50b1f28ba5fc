package category

import (
	"context"
	"net/netip"
	"strings"
	"testing"

	"shuultuur/filter"
	"shuultuur/list"
)

// What AdGuard's documentation says of rules for name servers ("DNS filtering
// rules syntax"), as cases.
func TestAdblockRulesForNames(t *testing.T) {
	type question struct {
		host, qtype, client, user string
		want                      string // "" passes, "block", or a modifier
	}
	for _, c := range []struct {
		name  string
		rules string
		ask   []question
	}{
		{"a host and all below it", "||example.org^", []question{
			{host: "example.org", want: "block"}, {host: "www.example.org", want: "block"},
			{host: "example.org.evil.com"}, {host: "badexample.org"}}},
		{"an exact host", "|example.org^", []question{
			{host: "example.org", want: "block"}, {host: "www.example.org"}}},
		{"the end of a name", "ample.org|", []question{
			{host: "example.org", want: "block"}, {host: "sample.org", want: "block"}, {host: "example.org.uk"}}},
		{"a wildcard", "||ads*.example.org^", []question{
			{host: "ads1.example.org", want: "block"}, {host: "x.ads-2.example.org", want: "block"}, {host: "www.example.org"}}},
		{"a part of a name", "*-telemetry.*", []question{
			{host: "eu-telemetry.example.com", want: "block"}, {host: "telemetry.example.com"}}},
		{"a regular expression", `/^ad[0-9]+\./`, []question{
			{host: "ad12.example.org", want: "block"}, {host: "read12.example.org"}}},
		{"an exception", "||example.org^\n@@||good.example.org^", []question{
			{host: "example.org", want: "block"}, {host: "good.example.org"}, {host: "x.good.example.org"}}},
		{"important", "||example.org^$important\n@@||example.org^", []question{{host: "example.org", want: "block"}}},
		{"an important exception", "||example.org^$important\n@@||example.org^$important", []question{{host: "example.org"}}},
		{"badfilter", "||example.org^\n||example.org^$badfilter", []question{{host: "example.org"}}},
		{"badfilter of a rule with options", "||example.org^$dnstype=A\n||example.org^$dnstype=A,badfilter", []question{{host: "example.org", qtype: "A"}}},

		{"dnstype", "||example.org^$dnstype=AAAA|HTTPS", []question{
			{host: "example.org", qtype: "AAAA", want: "block"}, {host: "example.org", qtype: "HTTPS", want: "block"}, {host: "example.org", qtype: "A"}}},
		{"dnstype, excluded", "||example.org^$dnstype=~A|~CNAME", []question{
			{host: "example.org", qtype: "A"}, {host: "example.org", qtype: "AAAA", want: "block"}}},
		{"an exception for a type", "||example.org^\n@@||example.org^$dnstype=TXT", []question{
			{host: "example.org", qtype: "A", want: "block"}, {host: "example.org", qtype: "TXT"}}},
		{"all names of a type", "*$dnstype=AAAA,denyallow=example.net", []question{
			{host: "example.org", qtype: "AAAA", want: "block"}, {host: "x.example.net", qtype: "AAAA"}, {host: "example.org", qtype: "A"}}},

		{"a client's address", "||example.org^$client=192.0.2.1", []question{
			{host: "example.org", client: "192.0.2.1", want: "block"}, {host: "example.org", client: "192.0.2.2"}}},
		{"a client's network", "||example.org^$client=192.0.2.0/24", []question{
			{host: "example.org", client: "192.0.2.200", want: "block"}, {host: "example.org", client: "198.51.100.1"}}},
		{"a client's name", `||example.org^$client='Frank\'s laptop'`, []question{
			{host: "example.org", user: "Frank's laptop", want: "block"}, {host: "example.org", user: "Mary"}}},
		{"a client, excluded", "||example.org^$client=~Mary|~192.0.2.1", []question{
			{host: "example.org", user: "Mary"}, {host: "example.org", client: "192.0.2.1"}, {host: "example.org", client: "192.0.2.9", want: "block"}}},
		{"an exception for a client", "||example.org^\n@@||example.org^$client=192.0.2.1", []question{
			{host: "example.org", client: "192.0.2.1"}, {host: "example.org", client: "192.0.2.2", want: "block"}}},

		{"denyallow", "||example.org^$denyallow=a.example.org|b.example.org", []question{
			{host: "example.org", want: "block"}, {host: "x.example.org", want: "block"}, {host: "a.example.org"}, {host: "x.b.example.org"}}},
		{"a whole top-level domain but", "||org^$denyallow=example.org", []question{
			{host: "other.org", want: "block"}, {host: "www.example.org"}}},

		{"rewritten to an address", "||example.org^$dnsrewrite=192.0.2.7", []question{{host: "www.example.org", want: "dnsrewrite=NOERROR;A;192.0.2.7"}}},
		{"to an IPv6 address", "||example.org^$dnsrewrite=2001:db8::7", []question{{host: "example.org", want: "dnsrewrite=NOERROR;AAAA;2001:db8::7"}}},
		{"to a name", "||example.org^$dnsrewrite=other.example", []question{{host: "example.org", want: "dnsrewrite=NOERROR;CNAME;other.example"}}},
		{"to NXDOMAIN", "||example.org^$dnsrewrite=NXDOMAIN;;", []question{{host: "example.org", want: "dnsrewrite=NXDOMAIN;;"}}},
		{"to REFUSED, short", "||example.org^$dnsrewrite=REFUSED", []question{{host: "example.org", want: "dnsrewrite=REFUSED;;"}}},
		{"to nothing", "||example.org^$dnsrewrite=NOERROR;;", []question{{host: "example.org", want: "dnsrewrite=NOERROR;;"}}},
		{"to a mail server", "||example.org^$dnsrewrite=NOERROR;MX;32 mail.example", []question{{host: "example.org", want: "dnsrewrite=NOERROR;MX;32 mail.example"}}},
		{"to two addresses", "||example.org^$dnsrewrite=192.0.2.7\n||example.org^$dnsrewrite=192.0.2.8", []question{
			{host: "example.org", want: "dnsrewrite=NOERROR;A;192.0.2.7|NOERROR;A;192.0.2.8"}}},
		{"a plain exception does not lift a rewrite", "||example.org^$dnsrewrite=192.0.2.7\n@@||example.org^", []question{
			{host: "example.org", want: "dnsrewrite=NOERROR;A;192.0.2.7"}}},
		{"an exception from all rewrites", "||example.org^$dnsrewrite=192.0.2.7\n@@||example.org^$dnsrewrite", []question{{host: "example.org"}}},
		{"an exception from one rewrite", "||example.org^$dnsrewrite=192.0.2.7\n||example.org^$dnsrewrite=192.0.2.8\n@@||example.org^$dnsrewrite=192.0.2.7", []question{
			{host: "example.org", want: "dnsrewrite=NOERROR;A;192.0.2.8"}}},

		{"rules about pages do not count", "||example.org^$third-party\n||example.org^$domain=a.com\n||example.org^$script\n||example.org/ads\n/banner/*", []question{{host: "example.org"}, {host: "banner.example.org"}}},
		{"but these do", "||a.org^$all\n||b.org^$document", []question{{host: "a.org", want: "block"}, {host: "b.org", want: "block"}}},
	} {
		f := compile(t, "dns", list.Config{Format: list.Adblock, Category: "dns"}, c.rules+"\n")
		check, err := New(Config{Lists: []string{"dns"}}, map[string]*list.File{"dns": f})
		if err != nil {
			t.Fatal(err)
		}
		for _, q := range c.ask {
			tr := &filter.Transaction{Proto: filter.DNS, Host: q.host, Last: filter.Name}
			tr.Client.User = q.user
			tr.Client.Addr = netip.MustParseAddr("203.0.113.1")
			if q.client != "" {
				tr.Client.Addr = netip.MustParseAddr(q.client)
			}
			if q.qtype == "" {
				q.qtype = "A"
			}
			if tr.Type, err = filter.RecordType(q.qtype); err != nil {
				t.Fatal(err)
			}
			found, err := check.Find(context.Background(), tr, filter.Name, nil)
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			for _, f := range found {
				if f.Check == Exception {
					continue
				}
				if got = f.Modifier; got == "" {
					got = "block"
				}
			}
			if got != q.want {
				t.Errorf("%s: %+v: %q, want %q", c.name, q, got, q.want)
			}
		}
	}
}

func TestRulesForNamesMeanNothingToPages(t *testing.T) {
	f := compile(t, "dns", list.Config{Format: list.Adblock, Category: "dns"}, "||example.org^$dnstype=A\n||example.org^$dnsrewrite=192.0.2.1\n||example.org^$client=192.0.2.1\n")
	check, err := New(Config{Lists: []string{"dns"}}, map[string]*list.File{"dns": f})
	if err != nil {
		t.Fatal(err)
	}
	if _, atRequest := find(t, check, "example.org", "/"); len(atRequest) != 0 {
		t.Errorf("found %+v", atRequest)
	}
}

func TestATerseTransactionIsFoundWithoutAllocating(t *testing.T) {
	f := compile(t, "dns", list.Config{Format: list.Adblock, Category: "dns"}, "||example.org^\n||ads*.example.net^\n@@||good.example.net^\n||example.com^$dnstype=A\n")
	check, err := New(Config{Lists: []string{"dns"}}, map[string]*list.File{"dns": f})
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{"www.example.org", "ads1.example.net", "example.com", "harmless.net"} {
		tr := &filter.Transaction{Proto: filter.DNS, Type: 1, Host: host, Last: filter.Name, Terse: true}
		var found []filter.Finding
		n := testing.AllocsPerRun(200, func() {
			found, err = check.Find(context.Background(), tr, filter.Name, found[:0])
		})
		if err != nil || len(found) != 1 && !strings.HasPrefix(host, "harmless") {
			t.Fatalf("%s: found %+v, %v", host, found, err)
		}
		if n > 0 && !raceEnabled {
			t.Errorf("%s: %v allocations", host, n)
		}
	}
}
