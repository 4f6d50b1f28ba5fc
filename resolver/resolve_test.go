package resolver

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	miekg "github.com/miekg/dns"

	"shuultuur/filter"
	"shuultuur/lib/dns"
	"shuultuur/lib/setting"
	"shuultuur/resolver/cache"
)

// A judge is a simple policy: the treatment of a host and its subdomains.
type judge struct {
	verdicts map[string]filter.Verdict
	names    filter.Names
}

func (j *judge) Wants(*filter.Transaction, filter.Stage) bool { return false }

func (j *judge) Decide(_ context.Context, t *filter.Transaction, _ filter.Stage) {
	if t.Verdict.Final() {
		return
	}
	t.Verdict = filter.Verdict{Reason: filter.Reason{Policy: "pupils"}, Names: j.names}
	for host := t.Host; host != ""; _, host, _ = strings.Cut(host, ".") {
		if v, ok := j.verdicts[host]; ok {
			f := filter.Finding{Check: "category", Category: "games", Modifier: v.Reason.Finding.Modifier}
			if !t.Terse {
				f.Evidence = host + " in games.txt:1"
			}
			t.Findings = append(t.Findings, f)
			v.Reason = filter.Reason{Policy: "pupils", Rule: "rule", Finding: f}
			names := j.names
			if v.Names.Answer != filter.Usual {
				names.Answer = v.Names.Answer
			}
			v.Names = names
			t.Verdict = v
			break
		}
	}
}

// An internet answers out of records in presentation form.
type internet struct {
	mu      sync.Mutex
	records map[string][]string // by "name type"; "NXDOMAIN" as the only one for none
	asked   map[string]int
	err     error
	wait    chan struct{} // nil: at once
}

func (n *internet) exchange(ctx context.Context, name []byte, qtype, class uint16, do, cd bool) ([]byte, uint16, error) {
	n.mu.Lock()
	key := dns.Text(name) + " " + miekg.TypeToString[qtype]
	if n.asked == nil {
		n.asked = map[string]int{}
	}
	n.asked[key]++
	err, wait, records := n.err, n.wait, n.records[key]
	n.mu.Unlock()
	if wait != nil {
		select {
		case <-wait:
		case <-ctx.Done():
			return nil, dns.EDENoReachable, ctx.Err()
		}
	}
	if err != nil {
		return nil, dns.EDENetwork, err
	}
	m := new(miekg.Msg)
	m.SetQuestion(dns.Text(name), qtype)
	m.Response, m.Compress = true, true
	for _, r := range records {
		if r == "NXDOMAIN" {
			m.Rcode = miekg.RcodeNameError
			continue
		}
		rr, err := miekg.NewRR(r)
		if err != nil {
			return nil, 0, err
		}
		m.Answer = append(m.Answer, rr)
	}
	if len(m.Answer) == 0 {
		rr, _ := miekg.NewRR("example. 900 IN SOA ns.example. h.example. 1 2 3 4 300")
		m.Ns = append(m.Ns, rr)
	}
	m.SetEdns0(1232, do)
	out, err := m.Pack()
	return out, 0, err
}

func (n *internet) count(key string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.asked[key]
}

// A reply is a reply with its transaction, as in the server.
type reply struct {
	dns.Reply
	T filter.Transaction
}

func (a *reply) Start(q *dns.Query, buf []byte, limit int) {
	a.Reply.Start(q, buf, limit)
	a.T.Reset()
}

type rig struct {
	t     testing.TB
	r     *Resolver
	store *Store
	net   *internet
	judge *judge
	now   time.Time
}

func newRig(t testing.TB, cfg Config, parts Parts, j *judge, records map[string][]string) *rig {
	t.Helper()
	x := &rig{t: t, net: &internet{records: records}, judge: j, now: time.Now()}
	store, err := NewStore(CacheConfig{Size: 8 << 20}, "", x.net.exchange)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	x.store = store
	parts.Store, parts.Decider = store, j
	parts.Identify = func(a netip.Addr, _ string) filter.Client { return filter.Client{Addr: a} }
	if x.r, err = New(cfg, parts); err != nil {
		t.Fatal(err)
	}
	return x
}

// query makes a query like those the server hands on.
func query(t testing.TB, name string, qtype uint16, now time.Time) *dns.Query {
	t.Helper()
	m := new(miekg.Msg)
	m.SetQuestion(miekg.Fqdn(name), qtype)
	m.SetEdns0(1232, false)
	b, err := m.Pack()
	if err != nil {
		t.Fatal(err)
	}
	q := &dns.Query{}
	if st := q.Parse(b); st != dns.OK {
		t.Fatalf("parsing the query for %s: status %d", name, st)
	}
	q.Client, q.At, q.Recursion = netip.MustParseAddrPort("192.0.2.7:5353"), now, true
	return q
}

// ask returns the answer to a question and how it was obtained.
func (x *rig) ask(name string, qtype uint16) (*miekg.Msg, *reply, bool) {
	x.t.Helper()
	q := query(x.t, name, qtype, x.now)
	a := &reply{}
	a.Start(q, make([]byte, 0, 1232), 1200)
	waited := false
	out := x.r.Answer(q, &a.Reply, &a.T)
	if out == dns.Later {
		waited = true
		a.Start(q, a.Buf, 1200)
		out = x.r.Wait(context.Background(), q, &a.Reply, &a.T)
	}
	if out != dns.Answered {
		x.t.Fatalf("%s: got outcome %d, want Answered", name, out)
	}
	msg := a.Finish(&dns.Options{Size: 1232, Max: 1232})
	m := new(miekg.Msg)
	if err := m.Unpack(msg); err != nil {
		x.t.Fatalf("%s: reading the answer: %v in %x", name, err, msg)
	}
	return m, a, waited
}

// summary returns an answer in one line.
func summary(m *miekg.Msg) string {
	var parts []string
	parts = append(parts, miekg.RcodeToString[m.Rcode])
	for _, rr := range m.Answer {
		s := strings.TrimPrefix(rr.String(), rr.Header().String())
		parts = append(parts, miekg.TypeToString[rr.Header().Rrtype]+" "+s)
	}
	for _, rr := range m.Ns {
		parts = append(parts, "+"+miekg.TypeToString[rr.Header().Rrtype])
	}
	if opt := m.IsEdns0(); opt != nil {
		for _, o := range opt.Option {
			if e, ok := o.(*miekg.EDNS0_EDE); ok {
				parts = append(parts, fmt.Sprintf("EDE %d", e.InfoCode))
			}
		}
	}
	return strings.Join(parts, ", ")
}

func block(how filter.Answer) filter.Verdict {
	return filter.Verdict{Action: filter.Block, Names: filter.Names{Answer: how}}
}

func rewriteTo(modifier string) filter.Verdict {
	v := block(filter.Usual)
	v.Reason.Finding.Modifier = modifier
	return v
}

func safe(to string) filter.Verdict {
	return filter.Verdict{Edits: []filter.Edit{{Kind: filter.DialHost, Value: to}}}
}

func TestAnswers(t *testing.T) {
	j := &judge{verdicts: map[string]filter.Verdict{
		"usual.com":    block(filter.Usual),
		"nx.com":       block(filter.NXDomain),
		"nodata.com":   block(filter.NoData),
		"zero.com":     block(filter.Zero),
		"sink.com":     block(filter.Sinkhole),
		"refused.com":  block(filter.Refused),
		"warn.com":     {Action: filter.Warn},
		"away.com":     {Action: filter.Redirect, To: "good.com"},
		"allowed.com":  {Action: filter.Allow},
		"tracker.net":  block(filter.NXDomain),
		"203.0.113.66": block(filter.NXDomain),
		"google.com":   safe("safe.google.com"),
		"rw-a.com":     rewriteTo("dnsrewrite=NOERROR;A;192.0.2.99|NOERROR;A;192.0.2.98"),
		"rw-nx.com":    rewriteTo("dnsrewrite=NXDOMAIN;;"),
		"rw-ref.com":   rewriteTo("dnsrewrite=REFUSED;;"),
		"rw-cname.com": rewriteTo("dnsrewrite=NOERROR;CNAME;good.com"),
		"rw-txt.com":   rewriteTo("dnsrewrite=NOERROR;TXT;hello"),
	}}
	records := map[string][]string{
		"good.com. A":                {"good.com. 300 IN A 198.51.100.1"},
		"good.com. AAAA":             {},
		"gone.com. A":                {"NXDOMAIN"},
		"cloaked.good.com. A":        {"cloaked.good.com. 300 IN CNAME x.tracker.net.", "x.tracker.net. 300 IN A 198.51.100.2"},
		"deep.good.com. A":           {"deep.good.com. 300 IN CNAME a.good.com.", "a.good.com. 300 IN CNAME x.tracker.net.", "x.tracker.net. 300 IN A 198.51.100.2"},
		"dname.good.com. A":          {"good.com. 300 IN DNAME tracker.net.", "dname.good.com. 300 IN CNAME dname.tracker.net.", "dname.tracker.net. 300 IN A 198.51.100.2"},
		"cloaked.allowed.com. A":     {"cloaked.allowed.com. 300 IN CNAME x.tracker.net.", "x.tracker.net. 300 IN A 198.51.100.2"},
		"aliased.com. A":             {"aliased.com. 300 IN CNAME good.com.", "good.com. 300 IN A 198.51.100.1"},
		"bad-address.com. A":         {"bad-address.com. 300 IN A 203.0.113.66"},
		"rebind.com. A":              {"rebind.com. 300 IN A 192.168.1.1"},
		"rebind6.com. AAAA":          {"rebind6.com. 300 IN AAAA fd00::1"},
		"mapped.com. AAAA":           {"mapped.com. 300 IN AAAA ::ffff:10.0.0.1"},
		"loop.com. A":                {"loop.com. 300 IN A 127.0.0.1"},
		"hint.com. HTTPS":            {`hint.com. 300 IN HTTPS 1 . alpn="h2" ipv4hint="198.51.100.1,192.168.1.1"`},
		"bad-hint.com. HTTPS":        {`bad-hint.com. 300 IN HTTPS 1 . ipv4hint="203.0.113.66"`},
		"nat64.com. AAAA":            {"nat64.com. 300 IN AAAA 64:ff9b::10.0.0.1"},
		"nas.home.lan. A":            {"nas.home.lan. 300 IN A 192.168.1.2"},
		"pc.office.example. A":       {"pc.office.example. 300 IN A 10.1.1.1"},
		"1.1.1.10.in-addr.arpa. PTR": {"1.1.1.10.in-addr.arpa. 300 IN PTR pc.office.example."},
		"safe.google.com. A":         {"safe.google.com. 300 IN A 198.51.100.20"},
		"www.google.com. MX":         {"www.google.com. 300 IN MX 1 m.google.com."},
		"h3.com. HTTPS":              {`h3.com. 300 IN HTTPS 1 . alpn="h2,h3" ech="AEX+DQA="`},
	}
	cfg := Config{
		Block:   Block{Sinkhole: []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fd00::53")}},
		Private: []string{"home.lan"},
		Hosts: map[string]setting.OneOrMore[string]{
			"printer.lan": {"10.0.0.9", "fd00::9"}, "*.dev.lan": {"10.0.0.8"}, "special.dev.lan": {"10.0.0.7"},
			"www.lan": {"good.com"}, "usual.com.own": {"10.0.0.2"}, "nick.lan": {"printer.lan"},
		},
	}
	x := newRig(t, cfg, Parts{Addresses: true, Routed: [][]byte{[]byte("\x06office\x07example\x00"), []byte("\x0210\x07in-addr\x04arpa\x00")}}, j, records)
	for _, c := range []struct {
		name  string
		qtype uint16
		want  string
	}{
		{"good.com", miekg.TypeA, "NOERROR, A 198.51.100.1"},
		{"good.com", miekg.TypeAAAA, "NOERROR, +SOA"},
		{"gone.com", miekg.TypeA, "NXDOMAIN, +SOA"},

		{"www.usual.com", miekg.TypeA, "NOERROR, A 0.0.0.0, EDE 15"},
		{"nx.com", miekg.TypeA, "NXDOMAIN, +SOA, EDE 15"},
		{"nx.com", miekg.TypeHTTPS, "NXDOMAIN, +SOA, EDE 15"},
		{"nodata.com", miekg.TypeA, "NOERROR, +SOA, EDE 15"},
		{"zero.com", miekg.TypeA, "NOERROR, A 0.0.0.0, EDE 15"},
		{"zero.com", miekg.TypeAAAA, "NOERROR, AAAA ::, EDE 15"},
		{"zero.com", miekg.TypeHTTPS, "NOERROR, +SOA, EDE 15"},
		{"zero.com", miekg.TypeSVCB, "NOERROR, +SOA, EDE 15"},
		{"zero.com", miekg.TypeMX, "NOERROR, +SOA, EDE 15"},
		{"sink.com", miekg.TypeA, "NOERROR, A 10.0.0.1, EDE 15"},
		{"sink.com", miekg.TypeAAAA, "NOERROR, AAAA fd00::53, EDE 15"},
		{"sink.com", miekg.TypeHTTPS, "NOERROR, +SOA, EDE 15"},
		{"refused.com", miekg.TypeA, "REFUSED, EDE 15"},
		{"warn.com", miekg.TypeA, "NOERROR, A 10.0.0.1, EDE 15"},
		{"away.com", miekg.TypeA, "NOERROR, CNAME good.com., A 198.51.100.1"},
		{"away.com", miekg.TypeMX, "NOERROR, +SOA"},

		{"cloaked.good.com", miekg.TypeA, "NXDOMAIN, +SOA, EDE 15"},
		{"deep.good.com", miekg.TypeA, "NXDOMAIN, +SOA, EDE 15"},
		{"dname.good.com", miekg.TypeA, "NXDOMAIN, +SOA, EDE 15"},
		{"cloaked.allowed.com", miekg.TypeA, "NOERROR, CNAME x.tracker.net., A 198.51.100.2"},
		{"aliased.com", miekg.TypeA, "NOERROR, CNAME good.com., A 198.51.100.1"},
		{"bad-address.com", miekg.TypeA, "NXDOMAIN, +SOA, EDE 15"},

		{"rebind.com", miekg.TypeA, "NOERROR, +SOA, EDE 15"},
		{"rebind6.com", miekg.TypeAAAA, "NOERROR, +SOA, EDE 15"},
		{"mapped.com", miekg.TypeAAAA, "NOERROR, +SOA, EDE 15"},
		{"loop.com", miekg.TypeA, "NOERROR, +SOA, EDE 15"},
		{"hint.com", miekg.TypeHTTPS, "NOERROR, +SOA, EDE 15"},
		{"bad-hint.com", miekg.TypeHTTPS, "NXDOMAIN, +SOA, EDE 15"},
		{"nat64.com", miekg.TypeAAAA, "NOERROR, +SOA, EDE 15"},
		{"nas.home.lan", miekg.TypeA, "NOERROR, A 192.168.1.2"},
		{"pc.office.example", miekg.TypeA, "NOERROR, A 10.1.1.1"},

		{"www.google.com", miekg.TypeA, "NOERROR, CNAME safe.google.com., A 198.51.100.20"},
		{"www.google.com", miekg.TypeHTTPS, "NOERROR, +SOA"},
		{"www.google.com", miekg.TypeMX, "NOERROR, MX 1 m.google.com."},

		{"rw-a.com", miekg.TypeA, "NOERROR, A 192.0.2.99, A 192.0.2.98, EDE 15"},
		{"rw-a.com", miekg.TypeAAAA, "NOERROR, +SOA, EDE 15"},
		{"rw-nx.com", miekg.TypeA, "NXDOMAIN, +SOA, EDE 15"},
		{"rw-ref.com", miekg.TypeA, "REFUSED, EDE 15"},
		{"rw-cname.com", miekg.TypeA, "NOERROR, CNAME good.com., A 198.51.100.1, EDE 15"},
		{"rw-txt.com", miekg.TypeTXT, `NOERROR, TXT "hello", EDE 15`},

		{"printer.lan", miekg.TypeA, "NOERROR, A 10.0.0.9"},
		{"printer.lan", miekg.TypeAAAA, "NOERROR, AAAA fd00::9"},
		{"printer.lan", miekg.TypeTXT, "NOERROR, +SOA"},
		{"9.0.0.10.in-addr.arpa", miekg.TypePTR, "NOERROR, PTR printer.lan."},
		{"a.b.dev.lan", miekg.TypeA, "NOERROR, A 10.0.0.8"},
		{"special.dev.lan", miekg.TypeA, "NOERROR, A 10.0.0.7"},
		{"www.lan", miekg.TypeA, "NOERROR, CNAME good.com., A 198.51.100.1"},
		{"nick.lan", miekg.TypeA, "NOERROR, CNAME printer.lan., A 10.0.0.9"},
		{"www.lan", miekg.TypeCNAME, "NOERROR, CNAME good.com."},

		{"localhost", miekg.TypeA, "NOERROR, A 127.0.0.1"},
		{"x.localhost", miekg.TypeAAAA, "NOERROR, AAAA ::1"},
		{"a.invalid", miekg.TypeA, "NXDOMAIN, +SOA"},
		{"facebookcorewwwi.onion", miekg.TypeA, "NXDOMAIN, +SOA"},
		{"home.arpa", miekg.TypeSOA, "NOERROR, +SOA"},
		{"x.home.arpa", miekg.TypeA, "NXDOMAIN, +SOA"},
		{"1.1.168.192.in-addr.arpa", miekg.TypePTR, "NXDOMAIN, +SOA"},
		{"1.5.31.172.in-addr.arpa", miekg.TypePTR, "NXDOMAIN, +SOA"},
		{"1.1.1.10.in-addr.arpa", miekg.TypePTR, "NOERROR, PTR pc.office.example."},
		{"_dns.resolver.arpa", miekg.TypeSVCB, "NXDOMAIN, +SOA"},
		{"use-application-dns.net", miekg.TypeA, "NXDOMAIN, +SOA, EDE 15"},
		{"mask.icloud.com", miekg.TypeAAAA, "NXDOMAIN, +SOA, EDE 15"},
		{"mask-h2.icloud.com", miekg.TypeA, "NXDOMAIN, +SOA, EDE 15"},
		{"good.com", miekg.TypeANY, `NOERROR, HINFO "RFC8482" ""`},
		{"good.com", miekg.TypeAXFR, "NOTIMP"},
	} {
		for _, again := range []string{"", " again"} { // the second time out of the cache
			m, a, waited := x.ask(c.name, c.qtype)
			if got := summary(m); got != c.want {
				t.Errorf("%s %s%s: got %s, want %s", c.name, miekg.TypeToString[c.qtype], again, got, c.want)
			}
			if again != "" && waited {
				t.Errorf("%s %s: the second answer was not available at once", c.name, miekg.TypeToString[c.qtype])
			}
			if !m.RecursionAvailable || m.Authoritative || m.Question[0].Name != miekg.Fqdn(c.name) {
				t.Errorf("%s: RA %v, AA %v, question %q", c.name, m.RecursionAvailable, m.Authoritative, m.Question[0].Name)
			}
			_ = a
		}
	}
	for name := range x.net.asked {
		if strings.Contains(name, "onion") || strings.Contains(name, "168.192") || strings.Contains(name, "canary") || strings.HasPrefix(name, "use-app") {
			t.Errorf("an upstream got the query for %s", name)
		}
	}
}

func TestAPolicyRemovesParametersOfHTTPSRecords(t *testing.T) {
	records := map[string][]string{"h3.com. HTTPS": {`h3.com. 300 IN HTTPS 1 . alpn="h2,h3,h3-29" ipv4hint="198.51.100.1" ech="AEX+DQA="`}}
	j := &judge{}
	x := newRig(t, Config{}, Parts{}, j, records)
	for _, c := range []struct {
		names filter.Names
		want  string
	}{
		{filter.Names{}, `HTTPS 1 . alpn="h2,h3,h3-29" ipv4hint="198.51.100.1" ech="AEX+DQA="`},
		{filter.Names{NoHTTP3: true}, `HTTPS 1 . alpn="h2" ipv4hint="198.51.100.1" ech="AEX+DQA="`},
		{filter.Names{NoECH: true}, `HTTPS 1 . alpn="h2,h3,h3-29" ipv4hint="198.51.100.1"`},
		{filter.Names{NoECH: true, NoHTTP3: true}, `HTTPS 1 . alpn="h2" ipv4hint="198.51.100.1"`},
	} {
		j.names = c.names
		for range 2 {
			m, _, _ := x.ask("h3.com", miekg.TypeHTTPS)
			if got := summary(m); got != "NOERROR, "+c.want {
				t.Errorf("%+v: got %s, want %s", c.names, got, c.want)
			}
		}
	}
	if n := x.net.count("h3.com. HTTPS"); n != 1 {
		t.Errorf("upstream got %d queries for one plain answer, want 1", n)
	}
}

func TestCanariesSingWhereOwnDNSIsAllowed(t *testing.T) {
	x := newRig(t, Config{}, Parts{}, &judge{names: filter.Names{OwnDNS: true}}, map[string][]string{
		"use-application-dns.net. A": {"use-application-dns.net. 300 IN A 198.51.100.3"}})
	if m, _, _ := x.ask("use-application-dns.net", miekg.TypeA); summary(m) != "NOERROR, A 198.51.100.3" {
		t.Errorf("the canary where own DNS is allowed: got %s, want the upstream's answer", summary(m))
	}
}

func TestTheErrorNamesCategoryPolicyAndTransaction(t *testing.T) {
	j := &judge{verdicts: map[string]filter.Verdict{"games.com": block(filter.Usual)}, names: filter.Names{Error: 17}}
	x := newRig(t, Config{}, Parts{}, j, map[string][]string{
		"cname.org. A": {"cname.org. 300 IN CNAME x.games.com.", "x.games.com. 300 IN A 198.51.100.9"}})
	m, a, _ := x.ask("games.com", miekg.TypeA)
	e, ok := m.IsEdns0().Option[0].(*miekg.EDNS0_EDE)
	if !ok || e.InfoCode != 17 || e.ExtraText != "block category games policy pupils id "+a.T.ID || len(a.T.ID) != 11 {
		t.Errorf("extended error: got %+v, transaction %q", e, a.T.ID)
	}
	q := query(t, "games.com", miekg.TypeA, x.now)
	got := x.r.Record(q, &a.Reply, &a.T)
	if got.Verdict.Reason.Finding.Evidence != "games.com in games.txt:1" || got.ID != a.T.ID || got.Host != "games.com" || got.Client.Addr != netip.MustParseAddr("192.0.2.7") {
		t.Errorf("record of the blocked name: got %+v", got)
	}
	_, a, _ = x.ask("cname.org", miekg.TypeA)
	got = x.r.Record(q, &a.Reply, &a.T)
	if got.Host != "cname.org" || !strings.Contains(got.Note, "x.games.com") || !strings.Contains(got.Verdict.Reason.Finding.Evidence, "games.com") {
		t.Errorf("record of the blocked alias: got %+v", got)
	}
}

func TestChecksSeeTheFlagsOfAQuery(t *testing.T) {
	x := newRig(t, Config{}, Parts{}, &judge{}, nil)
	q := query(t, "good.com", miekg.TypeA, x.now)
	q.Flags |= 1 << 6 // reserved
	a := &reply{}
	a.Start(q, nil, 1200)
	x.r.Answer(q, &a.Reply, &a.T)
	if a.T.Flags != q.Flags {
		t.Errorf("judged with the flags %#x, want %#x", a.T.Flags, q.Flags)
	}
	if r := x.r.Record(q, &a.Reply, &a.T); r.Flags != q.Flags {
		t.Errorf("recorded with the flags %#x, want %#x", r.Flags, q.Flags)
	}
}

// A witness is a judge that finds something in every message that is refused.
type witness struct {
	judge
	seen []byte
}

func (w *witness) SeeRefused(t *filter.Transaction, msg []byte) {
	w.seen = append([]byte(nil), msg...)
	t.Findings = append(t.Findings, filter.Finding{Check: "signature", Category: "7", Evidence: t.Host})
}

func TestQueriesTheServerAnswersByItselfAreExaminedAndRecorded(t *testing.T) {
	w := &witness{judge: judge{verdicts: map[string]filter.Verdict{"zone.test": {Action: filter.Block}}}}
	x := newRig(t, Config{}, Parts{}, &w.judge, nil)
	x.r.parts.Decider = w
	for name, host := range map[string]string{"notify": "zone.test", "nothing could be read": ""} {
		q := query(t, "zone.test", miekg.TypeSOA, x.now)
		q.Flags |= dns.OpcodeNotify << 11
		if host == "" {
			q.End, q.Name = 0, nil
		}
		a := &reply{}
		a.Start(q, nil, 1200)
		x.r.SeeRefused(q, &a.T)
		if string(w.seen) != string(q.Msg) {
			t.Errorf("%s: the check examined %q", name, w.seen)
		}
		a.Rcode = dns.RcodeNotAuth
		r := x.r.Record(q, &a.Reply, &a.T)
		if len(r.Findings) != 1 || r.Findings[0].Evidence != host || r.Host != host || r.Verdict.Final() || r.ID == "" || r.Status != dns.RcodeNotAuth || r.Proto != filter.DNS {
			t.Errorf("%s: got record %+v", name, r)
		}
	}
}

func TestStrangersAndOtherClassesAreNotForUs(t *testing.T) {
	x := newRig(t, Config{}, Parts{}, &judge{}, nil)
	for _, change := range []func(*dns.Query){func(q *dns.Query) { q.Recursion = false }, func(q *dns.Query) { q.Class = 3 }} {
		q := query(t, "good.com", miekg.TypeA, x.now)
		change(q)
		a := &reply{}
		a.Start(q, nil, 1200)
		if out := x.r.Answer(q, &a.Reply, &a.T); out != dns.Declined {
			t.Errorf("got outcome %d, want Declined", out)
		}
	}
}

func TestConcurrentQueriesForOneAnswerAreSentOnce(t *testing.T) {
	x := newRig(t, Config{}, Parts{}, &judge{}, map[string][]string{"good.com. A": {"good.com. 300 IN A 198.51.100.1"}})
	x.net.wait = make(chan struct{})
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if m, _, _ := x.ask("good.com", miekg.TypeA); summary(m) != "NOERROR, A 198.51.100.1" {
				t.Errorf("good.com: got %s, want its address", summary(m))
			}
		})
	}
	for x.net.count("good.com. A") == 0 {
		time.Sleep(time.Millisecond)
	}
	close(x.net.wait)
	wg.Wait()
	if n := x.net.count("good.com. A"); n != 1 {
		t.Errorf("upstream got %d queries, want 1", n)
	}
}

// TestWithTheCacheOffNoAnswerIsKept: each question is asked upstream, and a failure is not asked without
// end.
func TestWithTheCacheOffNoAnswerIsKept(t *testing.T) {
	for _, tt := range []struct {
		size  setting.Size
		fails bool
		want  int // questions upstream for three of a client
	}{{0, false, 1}, {setting.NoSize, false, 3}, {setting.NoSize, true, 1}} {
		var asked atomic.Int32
		net := &internet{records: map[string][]string{"www.example. A": {"www.example. 300 IN A 192.0.2.1"}}}
		store, err := NewStore(CacheConfig{Size: tt.size}, "", func(ctx context.Context, name []byte, qtype, class uint16, do, cd bool) ([]byte, uint16, error) {
			asked.Add(1)
			if tt.fails {
				return nil, dns.EDENetwork, errors.New("gone")
			}
			return net.exchange(ctx, name, qtype, class, do, cd)
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(store.Close)
		k := cache.Key{Name: []byte("\x03www\x07example\x00"), Type: dns.TypeA, Class: dns.ClassIN}
		now := time.Now()
		for range 3 {
			if _, _, ok, _ := store.get(&k, now, nil); ok {
				continue
			}
			_, e := store.wait(t.Context(), &k, now, nil)
			if (e.Rcode == 0) == tt.fails {
				t.Errorf("size %v: the answer has rcode %d", tt.size, e.Rcode)
			}
		}
		if got := int(asked.Load()); got != tt.want {
			t.Errorf("size %v, failing %v: %d questions go upstream, want %d", tt.size, tt.fails, got, tt.want)
		}
	}
	if _, err := NewStore(CacheConfig{Size: 1 << 10}, "", nil); err == nil {
		t.Error("a cache of 1 KiB is taken")
	}
}

func TestWithoutUpstreamsOldAnswersAreGivenAndThenSERVFAIL(t *testing.T) {
	x := newRig(t, Config{}, Parts{}, &judge{}, map[string][]string{
		"good.com. A": {"good.com. 300 IN A 198.51.100.1"}, "new.com. A": {"new.com. 300 IN A 198.51.100.4"}})
	x.ask("good.com", miekg.TypeA)
	x.net.err = errors.New("no route to host")
	x.now = x.now.Add(10 * time.Minute)
	for range 2 {
		m, _, _ := x.ask("good.com", miekg.TypeA)
		if got := summary(m); got != "NOERROR, A 198.51.100.1, EDE 3" || m.Answer[0].Header().Ttl != 30 {
			t.Errorf("stale answer without upstreams: got %s, TTL %d", got, m.Answer[0].Header().Ttl)
		}
	}
	m, _, _ := x.ask("new.com", miekg.TypeA)
	if got := summary(m); got != "SERVFAIL, EDE 23" {
		t.Errorf("uncached name without upstreams: got %s", got)
	}
	if st := x.store.Stats(); st.Stale < 2 || st.Failed < 2 {
		t.Errorf("counters without upstreams: got %+v", st)
	}
	x.net.mu.Lock()
	x.net.err = nil
	x.net.mu.Unlock()
	x.now = x.now.Add(time.Minute)
	for _, c := range [][2]string{{"new.com", "NOERROR, A 198.51.100.4"}, {"good.com", "NOERROR, A 198.51.100.1"}} {
		if m, _, _ := x.ask(c[0], miekg.TypeA); summary(m) != c[1] {
			t.Errorf("after the upstreams came back: got %s", summary(m))
		}
	}
}

func TestAQueryIsAnsweredWithoutAllocating(t *testing.T) {
	j := &judge{verdicts: map[string]filter.Verdict{"usual.com": block(filter.Usual), "nx.com": block(filter.NXDomain), "sink.com": block(filter.Sinkhole)}}
	x := newRig(t, Config{Hosts: map[string]setting.OneOrMore[string]{"printer.lan": {"10.0.0.9"}}, Block: Block{Sinkhole: []netip.Addr{netip.MustParseAddr("10.0.0.1")}}}, Parts{}, j, map[string][]string{
		"good.com. A": {"good.com. 300 IN A 198.51.100.1"}, "gone.com. A": {"NXDOMAIN"},
		"aliased.com. A": {"aliased.com. 300 IN CNAME good.com.", "good.com. 300 IN A 198.51.100.1"}})
	for _, name := range []string{"usual.com", "nx.com", "sink.com", "good.com", "gone.com", "aliased.com", "printer.lan", "localhost", "x.onion", "use-application-dns.net"} {
		x.ask(name, miekg.TypeA)
		q := query(t, name, miekg.TypeA, x.now)
		a, buf := &reply{}, make([]byte, 0, 4096)
		o := &dns.Options{Size: 1232, Max: 1232}
		n := testing.AllocsPerRun(200, func() {
			a.Start(q, buf, 1200)
			if out := x.r.Answer(q, &a.Reply, &a.T); out != dns.Answered {
				t.Fatalf("%s: Answer returned outcome %d", name, out)
			}
			a.Finish(o)
		})
		if n != 0 {
			t.Errorf("%s: %v allocations per query, want none", name, n)
		}
	}
}

// TestRefusalsAreNotKeptLongerThanTheyLast: for how long a limit or a quota refuses, and until a schedule
// changes, whatever the TTL of refusals is.
func TestRefusalsAreNotKeptLongerThanTheyLast(t *testing.T) {
	of := func(v filter.Verdict) filter.Verdict { v.Action = filter.Block; return v }
	x := newRig(t, Config{Block: Block{TTL: setting.Duration(time.Hour)}}, Parts{}, &judge{verdicts: map[string]filter.Verdict{
		"limit.example": of(filter.Verdict{After: 20 * time.Second}), "bedtime.example": of(filter.Verdict{Holds: 10 * time.Minute}),
		"quota.example": of(filter.Verdict{After: 3 * time.Hour, Holds: 2 * time.Hour}), "list.example": of(filter.Verdict{}),
	}}, nil)
	for name, want := range map[string]uint32{"limit.example": 20, "bedtime.example": 600, "quota.example": 3600, "list.example": 3600} {
		for _, typ := range []uint16{miekg.TypeA, miekg.TypeTXT} {
			m, _, _ := x.ask(name, typ)
			for _, rr := range append(m.Answer, m.Ns...) {
				if rr.Header().Ttl != want {
					t.Errorf("%s: %v, want the TTL %d", name, rr, want)
				}
			}
			if len(m.Answer)+len(m.Ns) == 0 {
				t.Errorf("%s: the answer has no records", name)
			}
		}
	}
}

// TestAnswersDuringAPauseAreNotKeptLonger: a name or an alias that is refused
// again in half a minute is not to be remembered for an hour.
func TestAnswersDuringAPauseAreNotKeptLonger(t *testing.T) {
	x := newRig(t, Config{}, Parts{}, &judge{verdicts: map[string]filter.Verdict{
		"games.example": {After: 30 * time.Second}, "late.example": {After: time.Millisecond},
	}}, map[string][]string{
		"games.example. A": {"games.example. 3600 IN A 198.51.100.1", "games.example. 5 IN A 198.51.100.2"},
		"late.example. A":  {"late.example. 3600 IN A 198.51.100.1"},
		"cloak.example. A": {"cloak.example. 3600 IN CNAME x.games.example.", "x.games.example. 3600 IN CNAME y.example.", "y.example. 3600 IN A 198.51.100.3"},
		"fine.example. A":  {"fine.example. 3600 IN A 198.51.100.4"},
	})
	for name, want := range map[string]string{
		"games.example": "[30 5]", "late.example": "[1]", "cloak.example": "[30 30 30]", "fine.example": "[3600]", "nothing.games.example": "[]",
	} {
		for _, from := range []string{"upstream", "cache"} {
			m, a, _ := x.ask(name, miekg.TypeA)
			ttls := []uint32{}
			for _, rr := range m.Answer {
				ttls = append(ttls, rr.Header().Ttl)
			}
			if got := fmt.Sprint(ttls); got != want {
				t.Errorf("%s from %s: got TTLs %s, want %s", name, from, got, want)
			}
			for _, rr := range m.Ns {
				if rr.Header().Ttl > 30 {
					t.Errorf("%s from %s: the TTL of %v is above 30 s", name, from, rr)
				}
			}
			got := x.r.Record(query(t, name, miekg.TypeA, x.now), &a.Reply, &a.T)
			if led := "would be refused for what the answer leads to: x.games.example"; name == "cloak.example" && got.Note != led {
				t.Errorf("%s from %s: got note %q, want %q", name, from, got.Note, led)
			}
			if name != "fine.example" && (got.Verdict.Reason.Finding.Evidence == "" || got.Verdict.Action != filter.Pass) {
				t.Errorf("%s from %s: got verdict on record %+v", name, from, got.Verdict)
			}
		}
	}
}
