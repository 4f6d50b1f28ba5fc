package category

import (
	"context"
	"net/netip"
	"strings"
	"testing"

	"shuultuur/filter"
	"shuultuur/lib/dns"
	"shuultuur/list"
	"shuultuur/test/race"
)

// TestAdblockRulesForNames has the cases in AdGuard's documentation of rules for name servers
// ("DNS filtering rules syntax").
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
			if tr.Type, err = dns.Type(q.qtype); err != nil {
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
				t.Errorf("%s: the query %+v found %q, want %q", c.name, q, got, q.want)
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
		t.Errorf("the request found %+v, want nothing", atRequest)
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
			t.Fatalf("%s: found %+v, %v; want one finding", host, found, err)
		}
		if n > 0 && !race.On {
			t.Errorf("%s: a lookup allocates %v times, want 0", host, n)
		}
	}
}

// TestPiholesExpressions has the cases in Pi-hole's documentation of its regular expressions
// ("Regular expressions tutorial", "Pi-hole regex extensions").
func TestPiholesExpressions(t *testing.T) {
	for _, tt := range []struct {
		lines string
		ask   map[string]string // by "name type": "" passes, "block", or a modifier
	}{
		{"domain", map[string]string{"some.domain.com A": "block", "verylongdomain.com A": "block", "doma.in A": ""}},
		{"^localhost$", map[string]string{"localhost A": "block", "a.localhost A": "", "localhost.com A": ""}},
		{"^abc", map[string]string{"abcdomain.com A": "block", "abc.domain.com A": "block", "def.abc.com A": ""}},
		{"com$", map[string]string{"domain.com A": "block", "domain.com.co.uk A": ""}},
		{"^domain.$", map[string]string{"domaina A": "block", "domain A": ""}},
		{"^ab{3,5}$", map[string]string{"abbbb A": "block", "ab A": ""}},
		{"^r-?movie", map[string]string{"r-movie.com A": "block", "r--movie.com A": ""}},
		{"^[0-9][^a-z]+\\.((com)|(edu))$", map[string]string{"555661.com A": "block", "555g555.com A": ""}},
		{"^ads[[:digit:]]+\\.", map[string]string{"ads12.example A": "block", "ads.example A": ""}},
		{"^ADS\\.", map[string]string{"ads.example A": "block"}},
		{"(^|\\.)doubleclick\\.(?#TODO: more)net$", map[string]string{"x.doubleclick.net A": "block", "mydoubleclick.net A": ""}},
		{"abc;querytype=AAAA", map[string]string{"abc AAAA": "block", "abc A": ""}},
		{"abc;querytype=A,AAAA", map[string]string{"abc AAAA": "block", "abc A": "block", "abc TXT": ""}},
		{".*;querytype=!A", map[string]string{"x.example AAAA": "block", "x.example PTR": "block", "x.example A": ""}},
		{"abc;querytype=!A,AAAA", map[string]string{"abc A": "", "abc AAAA": "", "abc HTTPS": "block"}},
		{"^abc$;invert", map[string]string{"abc A": "", "abcd A": "block", "x.example TXT": "block"}},
		{"^abc$;invert;querytype=AAAA", map[string]string{"abc AAAA": "", "abcd AAAA": "block", "abcd A": ""}},
		{"^abc$;invert;reply=nxdomain", map[string]string{"abc A": "", "abcd A": "dnsrewrite=NXDOMAIN;;"}},
		{"abc;reply=nodata", map[string]string{"abc A": "dnsrewrite=NOERROR;;"}},
		{"abc;reply=nxdomain", map[string]string{"abc A": "dnsrewrite=NXDOMAIN;;"}},
		{"abc;reply=refused", map[string]string{"abc A": "dnsrewrite=REFUSED;;"}},
		{"abc;reply=none", map[string]string{"abc A": "block"}},
		{"abc;reply=ip", map[string]string{"abc A": "block"}},
		{"abc;reply=1.2.3.4", map[string]string{"abc A": "dnsrewrite=NOERROR;A;1.2.3.4"}},
		{"abc;reply=1.2.3.4;reply=fe80::1234", map[string]string{"abc A": "dnsrewrite=NOERROR;A;1.2.3.4|NOERROR;AAAA;fe80::1234"}},
		{"# abc\n\nabc;reply=no", map[string]string{"abc A": "", "xyz A": ""}},
		{"(abc", map[string]string{"abc A": "", "xyz A": ""}},
		{"abc;when=now\nabc;querytype=X", map[string]string{"abc A": "", "xyz A": ""}},
	} {
		c := checkOver(t, []testList{{"ftl", list.Config{Format: list.Pihole, Category: "ftl"}, tt.lines + "\n"}})
		for ask, want := range tt.ask {
			name, kind, _ := strings.Cut(ask, " ")
			tr := &filter.Transaction{Proto: filter.DNS, Host: name, Last: filter.Name}
			tr.Type, _ = dns.Type(kind)
			found, err := c.Find(context.Background(), tr, filter.Name, nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.TrimPrefix(strings.Replace(describe(found), "ftl", "block", 1), "block "); got != want {
				t.Errorf("%s: the query %s found %q, want %q", tt.lines, ask, got, want)
			}
		}
	}
}

// TestPiholesExpressionsAreForHosts: for pages and tunnels they are applied to the host.
func TestPiholesExpressionsAreForHosts(t *testing.T) {
	c := checkOver(t, []testList{{"ftl", list.Config{Format: list.Pihole, Category: "ftl"}, "^ads|_b_\n^never\\.;querytype=AAAA\n^gone\\.;reply=nxdomain\n"}})
	for url, want := range map[string]string{"ads.example/": "ftl", "x_b_.example/": "ftl", "other.example/x_b_/ads": "", "never.example/": "", "gone.example/": "ftl"} {
		page, tunnel, _ := findAll(t, c, url)
		if page != want || tunnel != want {
			t.Errorf("%s: found %q for the page and %q for the tunnel, want %q", url, page, tunnel, want)
		}
	}
	c = checkOver(t, []testList{{"ftl", list.Config{Format: list.Pihole, Category: "ftl"}, "^(good|fine)\\.;invert\n"}, {"a", ads, "||x.com/y\n@@||x.com^\n/z$script"}})
	for url, want := range map[string]string{"good.example/": "", "x.com/": "ftl"} {
		page, tunnel, _ := findAll(t, c, url)
		if page != want || tunnel != want {
			t.Errorf("inverted: %s found %q for the page and %q for the tunnel, want %q", url, page, tunnel, want)
		}
	}
}
