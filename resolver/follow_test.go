package resolver

import (
	"context"
	"strings"
	"testing"

	miekg "github.com/miekg/dns"

	"shuultuur/filter"
	"shuultuur/lib/dns"
	"shuultuur/lib/setting"
	"shuultuur/zone"
)

// served makes zones out of zone files.
func served(t *testing.T, files map[string]string) *zone.Responder {
	t.Helper()
	z := zone.NewResponder()
	for origin, text := range files {
		one, err := zone.Read(strings.NewReader("$TTL 60\n@ SOA ns h 1 2 3 4 60\n@ NS ns\nns A 192.0.2.53\n"+text), origin, origin+".zone")
		if err != nil {
			t.Fatal(err)
		}
		if err := z.Replace(one); err != nil {
			t.Fatal(err)
		}
	}
	return z
}

func wireNames(t *testing.T, names ...string) (all [][]byte) {
	t.Helper()
	for _, n := range names {
		w, err := dns.Name(n)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, w)
	}
	return all
}

func TestAliasesLeadToTheirOwners(t *testing.T) {
	records := map[string][]string{
		"www.public.com. A":          {"www.public.com. 300 IN A 198.51.100.1"},
		"txt.public.com. TXT":        {`txt.public.com. 300 IN TXT "hello"`},
		"other.public.com. A":        {"other.public.com. 300 IN CNAME www.public.com."}, // only the alias
		"chain.public.com. A":        {"chain.public.com. 300 IN CNAME other.public.com."},
		"gone.public.com. A":         {"gone.public.com. 300 IN CNAME nothing.public.com."},
		"nothing.public.com. A":      {"NXDOMAIN"},
		"empty.public.com. A":        {"empty.public.com. 300 IN CNAME none.public.com."},
		"loop.public.com. A":         {"loop.public.com. 300 IN CNAME loop2.public.com."},
		"loop2.public.com. A":        {"loop2.public.com. 300 IN CNAME loop.public.com."},
		"tohost.public.com. A":       {"tohost.public.com. 300 IN CNAME nas.home.lan.", "nas.home.lan. 300 IN A 203.0.113.9"},
		"tozone.public.com. A":       {"tozone.public.com. 300 IN CNAME www.corp.example.", "www.corp.example. 300 IN A 203.0.113.9"},
		"order.public.com. A":        {"www.corp.example. 300 IN A 203.0.113.9", "order.public.com. 300 IN CNAME www.corp.example."},
		"dname.public.com. A":        {"public.com. 300 IN DNAME corp.example.", "dname.public.com. 300 IN CNAME dname.corp.example."},
		"toreal.public.com. A":       {"toreal.public.com. 300 IN CNAME www.public.com.", "www.public.com. 300 IN A 198.51.100.1"},
		"tobad.public.com. A":        {"tobad.public.com. 300 IN CNAME www.corp.example."},
		"rebind.public.com. A":       {"rebind.public.com. 300 IN CNAME x.public.com.", "x.public.com. 300 IN A 10.0.0.1"},
		"tolocal.public.com. A":      {"tolocal.public.com. 300 IN CNAME localhost."},
		"tospecial.public.com. A":    {"tospecial.public.com. 300 IN CNAME printer.local."},
		"toblocked.public.com. A":    {"toblocked.public.com. 300 IN CNAME ads.tracker.net."},
		"toblockedbad.public.com. A": {"toblockedbad.public.com. 300 IN CNAME bad.tracker.net."},
		"bad.tracker.net. A":         {"SERVFAIL"},
		"ads.tracker.net. A":         {"ads.tracker.net. 300 IN A 198.51.100.66"},
		"sub.corp.example. A":        {"sub.corp.example. 300 IN A 198.51.100.7"},
		"www.routed.corp.example. A": {"www.routed.corp.example. 300 IN A 10.9.9.9"},
		"www.below.corp.example. A":  {"www.below.corp.example. 300 IN A 198.51.100.8"},
		"toroute.public.com. A":      {"toroute.public.com. 300 IN CNAME www.routed.corp.example."},
		"corp.example. DS":           {"corp.example. 300 IN DS 1 13 2 0000000000000000000000000000000000000000000000000000000000000000"},
	}
	z := served(t, map[string]string{
		"corp.example": `
www      A     10.1.1.1
ext      CNAME www.public.com.
extalias CNAME chain.public.com.
wild.x   CNAME txt.public.com.
*.w      CNAME www.public.com.
inner    CNAME ext
tohost   CNAME nas.home.lan.
toother  CNAME www.second.example.
dn       DNAME public.com.
below    NS    ns.below
ns.below A     10.1.1.9
tobelow  CNAME www.below
blocked  CNAME ads.tracker.net.
blockbad CNAME bad.tracker.net.
inbad    CNAME blockbad
dead     CNAME dead.invalid-upstream.com.
host     A     10.1.1.5
dname    A     10.1.1.6
torouted CNAME www.routed
nothing  CNAME nothing.public.com.
`,
		"second.example": "www A 10.2.2.2\nback CNAME www.corp.example.\n",
	})
	j := &judge{verdicts: map[string]filter.Verdict{"tracker.net": block(filter.NXDomain), "corp.example": {}}}
	cfg := Config{Hosts: map[string]setting.OneOrMore[string]{
		"nas.home.lan": {"10.3.3.3"}, "host.corp.example": {"10.3.3.4"}, "*.star.example": {"10.3.3.5"}, "zonealias.lan": {"www.corp.example"}, "extalias.lan": {"chain.public.com"}, "hostalias.lan": {"zonealias.lan"}}}
	x := newRig(t, cfg, Parts{Routed: wireNames(t, "routed.corp.example", "deep.star.example")}, j, records)
	x.r = x.r.With(z)
	for _, c := range []struct {
		name  string
		qtype uint16
		want  string
	}{
		// An upstream's answer that ends in an alias.
		{"other.public.com", miekg.TypeA, "NOERROR, CNAME www.public.com., A 198.51.100.1"},
		{"chain.public.com", miekg.TypeA, "NOERROR, CNAME other.public.com., CNAME www.public.com., A 198.51.100.1"},
		{"gone.public.com", miekg.TypeA, "NXDOMAIN, CNAME nothing.public.com., +SOA"},
		{"empty.public.com", miekg.TypeA, "NOERROR, CNAME none.public.com., +SOA"},
		{"loop.public.com", miekg.TypeA, "NOERROR, CNAME loop2.public.com., CNAME loop.public.com."},
		{"toreal.public.com", miekg.TypeA, "NOERROR, CNAME www.public.com., A 198.51.100.1"},
		// An alias to a name of ours leads to ours.
		{"tohost.public.com", miekg.TypeA, "NOERROR, CNAME nas.home.lan., A 10.3.3.3"},
		{"tozone.public.com", miekg.TypeA, "NOERROR, CNAME www.corp.example., A 10.1.1.1"},
		{"order.public.com", miekg.TypeA, "NOERROR, CNAME www.corp.example., A 10.1.1.1"},
		{"dname.public.com", miekg.TypeA, "NOERROR, DNAME corp.example., CNAME dname.corp.example., A 10.1.1.6"},
		{"toroute.public.com", miekg.TypeA, "NOERROR, CNAME www.routed.corp.example., A 10.9.9.9"},
		{"zonealias.lan", miekg.TypeA, "NOERROR, CNAME www.corp.example., A 10.1.1.1"},
		{"hostalias.lan", miekg.TypeA, "NOERROR, CNAME zonealias.lan., CNAME www.corp.example., A 10.1.1.1"},
		{"extalias.lan", miekg.TypeA, "NOERROR, CNAME chain.public.com., CNAME other.public.com., CNAME www.public.com., A 198.51.100.1"},
		// What has an owner elsewhere is no way in.
		{"rebind.public.com", miekg.TypeA, "NOERROR, +SOA, EDE 15"},
		{"tolocal.public.com", miekg.TypeA, "NOERROR, +SOA, EDE 15"},
		{"tospecial.public.com", miekg.TypeA, "NXDOMAIN, CNAME printer.local., +SOA"},
		{"toblocked.public.com", miekg.TypeA, "NXDOMAIN, +SOA, EDE 15"},
		{"toblockedbad.public.com", miekg.TypeA, "NXDOMAIN, +SOA, EDE 15"}, // though its servers fail
		{"blockbad.corp.example", miekg.TypeA, "NXDOMAIN, +SOA, EDE 15"},
		{"inbad.corp.example", miekg.TypeA, "NXDOMAIN, +SOA, EDE 15"},
		// Zones for people of this network.
		{"www.corp.example", miekg.TypeA, "NOERROR, A 10.1.1.1"},
		{"ext.corp.example", miekg.TypeA, "NOERROR, CNAME www.public.com., A 198.51.100.1"},
		{"ext.corp.example", miekg.TypeCNAME, "NOERROR, CNAME www.public.com."},
		{"extalias.corp.example", miekg.TypeA, "NOERROR, CNAME chain.public.com., CNAME other.public.com., CNAME www.public.com., A 198.51.100.1"},
		{"wild.x.corp.example", miekg.TypeTXT, `NOERROR, CNAME txt.public.com., TXT "hello"`},
		{"any.w.corp.example", miekg.TypeA, "NOERROR, CNAME www.public.com., A 198.51.100.1"},
		{"inner.corp.example", miekg.TypeA, "NOERROR, CNAME ext.corp.example., CNAME www.public.com., A 198.51.100.1"},
		{"tohost.corp.example", miekg.TypeA, "NOERROR, CNAME nas.home.lan., A 10.3.3.3"},
		{"toother.corp.example", miekg.TypeA, "NOERROR, CNAME www.second.example., A 10.2.2.2"},
		{"www.dn.corp.example", miekg.TypeA, "NOERROR, DNAME public.com., CNAME www.public.com., A 198.51.100.1"},
		{"www.below.corp.example", miekg.TypeA, "NOERROR, A 198.51.100.8"},
		{"tobelow.corp.example", miekg.TypeA, "NOERROR, CNAME www.below.corp.example., A 198.51.100.8"},
		{"blocked.corp.example", miekg.TypeA, "NXDOMAIN, +SOA, EDE 15"},
		{"nothing.corp.example", miekg.TypeA, "NXDOMAIN, CNAME nothing.public.com., +SOA"},
		{"gone.corp.example", miekg.TypeA, "NXDOMAIN, +SOA"},
		// The longest domain decides.
		{"host.corp.example", miekg.TypeA, "NOERROR, A 10.3.3.4"},
		{"www.routed.corp.example", miekg.TypeA, "NOERROR, A 10.9.9.9"},
		{"torouted.corp.example", miekg.TypeA, "NOERROR, CNAME www.routed.corp.example., A 10.9.9.9"},
		{"a.star.example", miekg.TypeA, "NOERROR, A 10.3.3.5"},
		{"a.deep.star.example", miekg.TypeA, "NOERROR, +SOA"},
		{"corp.example", miekg.TypeDS, "NOERROR, DS 1 13 2 0000000000000000000000000000000000000000000000000000000000000000"},
	} {
		for _, how := range []string{"first", "again"} {
			m, _, _ := x.ask(c.name, c.qtype)
			if got := summary(m); got != c.want {
				t.Errorf("%s: %s %s: got %s, want %s", how, c.name, miekg.TypeToString[c.qtype], got, c.want)
			}
			if !m.RecursionAvailable {
				t.Errorf("%s: %s: RA is not set", how, c.name)
			}
		}
	}
	for _, name := range []string{"nas.home.lan. A", "www.corp.example. A", "printer.local. A", "localhost. A"} {
		if n := x.net.count(name); n > 0 {
			t.Errorf("upstreams were asked for %s, which is ours", name)
		}
	}
	if n := x.net.count("chain.public.com. A"); n > 1 {
		t.Errorf("an answer that ends in an alias was fetched %d times, want 1", n)
	}
}

// TestZonesForOthersAreOnlyThat asks as somebody who may not recurse, or does not want to.
func TestZonesForOthersAreOnlyThat(t *testing.T) {
	z := served(t, map[string]string{"corp.example": "ext CNAME www.public.com.\nbelow NS ns.below\nns.below A 10.1.1.9\n"})
	x := newRig(t, Config{}, Parts{}, &judge{}, map[string][]string{"www.public.com. A": {"www.public.com. 300 IN A 198.51.100.1"}, "www.below.corp.example. A": {"www.below.corp.example. 300 IN A 198.51.100.8"}})
	x.r = x.r.With(z)
	for _, name := range []string{"ext.corp.example", "www.below.corp.example"} {
		q := query(t, name, miekg.TypeA, x.now)
		q.Flags &^= 1 << 8
		a := &reply{}
		a.Start(q, make([]byte, 0, 1232), 1200)
		if out := x.r.Answer(q, &a.Reply, &a.T); out != dns.Answered {
			t.Fatalf("%s without RD: outcome %d", name, out)
		}
		m := new(miekg.Msg)
		if err := m.Unpack(a.Finish(&dns.Options{Size: 1232, Max: 1232})); err != nil || len(m.Answer) > 1 || len(m.Answer)+len(m.Ns) != 1 {
			t.Errorf("%s without RD: got %v, want what the zone has", name, m)
		}
		q = query(t, name, miekg.TypeA, x.now)
		q.Recursion = false
		a.Start(q, a.Buf, 1200)
		if out := x.r.Wait(context.Background(), q, &a.Reply, &a.T); out != dns.Declined {
			t.Errorf("%s for a stranger: outcome %d, want it declined, for the zones", name, out)
		}
	}
	// A delegation that nobody else can follow is told.
	x.net.err = context.DeadlineExceeded
	m, _, _ := x.ask("www.below.corp.example", miekg.TypeA)
	if got := summary(m); got != "NOERROR, +NS" {
		t.Errorf("a delegation while upstreams fail: got %s, want the referral", got)
	}
	if m, _, _ := x.ask("ext.corp.example", miekg.TypeA); !strings.HasPrefix(summary(m), "SERVFAIL") {
		t.Errorf("an alias while upstreams fail: got %s, want SERVFAIL", summary(m))
	}
}

func TestWhatHidesAnotherIsTold(t *testing.T) {
	cfg := Config{Hosts: map[string]setting.OneOrMore[string]{
		"corp.example": {"10.0.0.1"}, "www.corp.example": {"10.0.0.2"}, "new.corp.example": {"10.0.0.3"}, "*.second.example": {"10.0.0.4"}, "elsewhere.example": {"10.0.0.5"}}}
	x := newRig(t, cfg, Parts{Routed: wireNames(t, "second.example", "below.corp.example", "www.third.example", "example")}, &judge{}, nil)
	got := strings.Join(x.r.Overlaps(wireNames(t, "corp.example", "second.example", "third.example"), func(_, name []byte) bool {
		return strings.HasPrefix(dns.Text(name), "www.")
	}), "\n")
	want := `dns.forward.routes.second.example: the zone second.example. answers for these names, because no domain there is longer; remove one of them
dns.forward.routes.www.third.example: it hides the records that the zone third.example. has there; remove one of them
dns.hosts.*.second.example: the zone second.example. answers for these names, because no domain there is longer; remove one of them
dns.hosts.corp.example: the zone corp.example. answers for these names, because no domain there is longer; remove one of them
dns.hosts.www.corp.example: it hides the records that the zone corp.example. has there; remove one of them`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
