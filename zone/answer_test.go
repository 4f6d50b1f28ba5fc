package zone

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	miekg "github.com/miekg/dns"

	"shuultuur/lib/dns"
	"shuultuur/test/race"
)

func parse(t testing.TB, origin, text string) *Zone {
	t.Helper()
	z, err := Read(strings.NewReader(text), origin, "")
	if err != nil {
		t.Fatal(err)
	}
	return z
}

func serve(t testing.TB, zones ...*Zone) *Responder {
	t.Helper()
	z := NewResponder()
	if err := z.Replace(zones...); err != nil {
		t.Fatal(err)
	}
	return z
}

func TestNothingIsAllocated(t *testing.T) {
	text := tiny + "www A 192.0.2.1\nmail MX 10 www\n*.wild A 192.0.2.3\nalias CNAME www\nfar CNAME www.other.test.\nsub NS ns.sub\nns.sub A 192.0.2.4\nd DNAME wild\n"
	z := serve(t, parse(t, "x.test.", text), parse(t, "other.test.", tiny+"www A 192.0.2.9\n"),
		parse(t, "nsec.test.", signed(t, "nsec.test.", "$ORIGIN nsec.test.\n"+text, nil)),
		parse(t, "nsec3.test.", signed(t, "nsec3.test.", "$ORIGIN nsec3.test.\n"+text, []string{"-3", "ab"})))
	for _, origin := range []string{"x.test.", "nsec.test.", "nsec3.test."} {
		for _, c := range []struct {
			what, name string
			typ        uint16
		}{
			{"positive", "www", miekg.TypeA}, {"with additional", "mail", miekg.TypeMX}, {"NXDOMAIN", "none", miekg.TypeA}, {"NODATA", "www", miekg.TypeAAAA},
			{"wildcard", "a.wild", miekg.TypeA}, {"wildcard NODATA", "a.wild", miekg.TypeMX}, {"alias", "alias", miekg.TypeA}, {"alias to another zone", "far", miekg.TypeA},
			{"referral", "a.sub", miekg.TypeA}, {"DNAME", "b.d", miekg.TypeA}, {"ANY", "www", miekg.TypeANY},
		} {
			m := question(c.name+"."+origin, c.typ)
			if origin != "x.test." {
				m.SetEdns0(4096, true)
			}
			msg, err := m.Pack()
			if err != nil {
				t.Fatal(err)
			}
			var q dns.Query
			var r dns.Reply
			q.Parse(msg)
			buf := make([]byte, 0, 4096)
			n := testing.AllocsPerRun(100, func() {
				r.Start(&q, buf, 4000)
				if z.Answer(&q, &r, nil) != dns.Answered {
					t.Fatal("the responder did not answer the query")
				}
			})
			if n > 0 && !race.On { // sync.Pool drops items under the race detector
				t.Errorf("answering %s of %s: %v allocations, want none", c.what, origin, n)
			}
		}
	}
}

func TestOwnersHaveTheCaseOfTheQuestion(t *testing.T) {
	z := serve(t, parse(t, "x.test.", tiny+"www A 192.0.2.1\n*.w A 192.0.2.2\n"))
	for _, name := range []string{"wWw.X.tEst.", "aB.W.x.Test."} {
		r := ask(t, z, question(name, miekg.TypeA), 512)
		if len(r.Answer) != 1 || r.Answer[0].Header().Name != name {
			t.Errorf("A of %s: got %v, want 1 record with that owner", name, r.Answer)
		}
	}
}

func TestSetsThatDoNotFitAreLeftOut(t *testing.T) {
	var b strings.Builder
	b.WriteString(tiny)
	for i := range 100 {
		fmt.Fprintf(&b, "big A 192.0.2.%d\nmail MX %d m%d\nm%d A 192.0.2.1\nsub NS ns%d.sub\nns%d.sub A 192.0.2.1\n", i, i, i%20, i, i%8, i)
	}
	z := serve(t, parse(t, "x.test.", b.String()))
	r := ask(t, z, question("big.x.test.", miekg.TypeA), 512)
	if !r.Truncated || len(r.Answer) != 0 {
		t.Errorf("100 addresses in 512 bytes: tc=%v with %d of them, want tc with none", r.Truncated, len(r.Answer))
	}
	if r = ask(t, z, question("big.x.test.", miekg.TypeA), 65535); r.Truncated || len(r.Answer) != 100 {
		t.Errorf("100 addresses in 65535 bytes: tc=%v with %d of them, want all without tc", r.Truncated, len(r.Answer))
	}
	if r = ask(t, z, question("a.sub.x.test.", miekg.TypeA), 220); !r.Truncated || len(r.Ns) != 8 {
		t.Errorf("referral whose glue does not fit: tc=%v, %d NS; want tc with 8", r.Truncated, len(r.Ns))
	}
	full := ask(t, z, question("mail.x.test.", miekg.TypeMX), 65535)
	less := ask(t, z, question("mail.x.test.", miekg.TypeMX), 2048)
	if less.Truncated || len(less.Answer) != 100 || len(less.Extra) >= len(full.Extra) {
		t.Errorf("additional addresses that do not fit: tc=%v, %d MX, %d of %d addresses; want all MX without tc", less.Truncated, len(less.Answer), len(less.Extra), len(full.Extra))
	}
}

func TestQuestionsThatAreNotOursAreDeclined(t *testing.T) {
	z := serve(t, parse(t, "x.test.", tiny))
	if r := ask(t, z, question("y.test.", miekg.TypeA), 512); r != nil {
		t.Errorf("name outside all zones: got %v, want no answer", r)
	}
	m := question("x.test.", miekg.TypeSOA)
	m.Question[0].Qclass = miekg.ClassCHAOS
	if r := ask(t, z, m, 512); r != nil {
		t.Errorf("query of another class: got %v, want no answer", r)
	}
	if r := ask(t, z, question("x.test.", miekg.TypeAXFR), 512); r == nil || r.Rcode != miekg.RcodeRefused {
		t.Errorf("AXFR without a Transferrer: got %v, want REFUSED", r)
	}
}

func TestNamesOfAWildcardAreOneForRateLimits(t *testing.T) {
	z := serve(t, parse(t, "x.test.", tiny+"*.w A 192.0.2.1\nwww A 192.0.2.2\nalias CNAME longer.than.this.w\n"))
	for name, want := range map[string]string{"a.w.x.test.": "w.x.test.", "A.b.W.x.test.": "w.x.test.", "www.x.test.": "", "alias.x.test.": ""} {
		msg, err := question(name, miekg.TypeA).Pack()
		if err != nil {
			t.Fatal(err)
		}
		var q dns.Query
		var r dns.Reply
		q.Parse(msg)
		r.Start(&q, nil, 512)
		z.Answer(&q, &r, nil)
		got := ""
		if r.Wildcard > 0 {
			got = dns.Text(q.Name[r.Wildcard:])
		}
		if r.Answers == 0 || got != want {
			t.Errorf("%s: %d answers, wildcard below %q, want %q", name, r.Answers, got, want)
		}
	}
}

func TestAnyIsAnsweredWithOneRRset(t *testing.T) {
	z := serve(t, parse(t, "x.test.", tiny+"www A 192.0.2.1\nwww A 192.0.2.2\nwww TXT long\nalias CNAME www\n"))
	if r := ask(t, z, question("www.x.test.", miekg.TypeANY), 512); len(r.Answer) != 2 {
		t.Errorf("ANY of www.x.test.: got %v, want 2 records", r)
	}
	if r := ask(t, z, question("alias.x.test.", miekg.TypeANY), 512); len(r.Answer) != 1 {
		t.Errorf("ANY of alias.x.test.: got %v, want 1 record", r)
	}
}

func TestViews(t *testing.T) {
	view := func(name, addr string, clients ...string) *Zone {
		z := parse(t, "x.test.", tiny+"www A "+addr+"\n")
		z.View = name
		for _, c := range clients {
			z.Clients = append(z.Clients, netip.MustParsePrefix(c))
		}
		return z
	}
	z := serve(t, view("", "192.0.2.1"), view("near", "192.0.2.2", "192.0.2.0/24"), view("one", "192.0.2.3", "192.0.2.200/32"), view("far", "192.0.2.4", "10.0.0.0/8"))
	if got := address(t, z, "www.x.test."); got != "192.0.2.3" { // the client of ask is 192.0.2.200
		t.Errorf("view with the longest prefix: got %s, want 192.0.2.3", got)
	}
	z.Remove("X.test", "one")
	if got := address(t, z, "www.x.test."); got != "192.0.2.2" {
		t.Errorf("view with the next shorter prefix: got %s, want 192.0.2.2", got)
	}
	z.Remove("x.test.", "near")
	z.Remove("x.test.", "")
	if r := ask(t, z, question("www.x.test.", miekg.TypeA), 512); r != nil {
		t.Errorf("a zone for other clients was answered from: %v", r)
	}
	if !z.Remove("x.test.", "far") || z.Remove("x.test.", "far") || len(z.Zones()) != 0 {
		t.Error("Remove of a view: want true, then false, and no zone left")
	}
}

func TestABadZoneReplacesNothing(t *testing.T) {
	z := serve(t, parse(t, "x.test.", tiny+"www A 192.0.2.1\n"), parse(t, "y.test.", tiny))
	err := z.Replace(parse(t, "x.test.", tiny+"www A 192.0.2.2\n"), parse(t, "y.test.", "@ 60 NS ns\n"))
	if err == nil || !strings.Contains(err.Error(), `"y.test."`) {
		t.Errorf("Replace with a faulty y.test.: got %v, want an error that names it", err)
	}
	if got := address(t, z, "www.x.test."); got != "192.0.2.1" {
		t.Errorf("after the failed Replace: got %s from x.test., want 192.0.2.1", got)
	}
}

func TestAllRecordsAreYielded(t *testing.T) {
	text := signed(t, "x.test.", "$ORIGIN x.test.\n"+tiny+"www A 192.0.2.1\nwww A 192.0.2.2\nmail MX 10 WWW\nmail MX 20 mx.other.\nsub NS ns.sub\nns.sub A 192.0.2.1\n_s._tcp SRV 1 2 3 www\nalias CNAME x.test.\nt TYPE65400 \\# 2 0102\n", []string{"-3", "ab"})
	one := parse(t, "x.test.", text)
	z := serve(t, one)
	var got, want []string
	for raw := range z.Zone("x.test.", netip.Addr{}).Records() {
		rr, _, err := miekg.UnpackRR(raw, 0)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, rr.String())
	}
	for _, rr := range one.Records {
		want = append(want, rr.String())
	}
	if !strings.Contains(got[0], "SOA") {
		t.Errorf("the first record is %s, want the SOA", got[0])
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("records of the zone: got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// pickLast picks the last record and reports that 24 bits of the subnet
// mattered.
type pickLast struct{}

func (pickLast) Pick(dst []uint16, _ *dns.Query, n int) ([]uint16, uint8, bool) {
	return append(dst, uint16(n-1)), 24, true
}

type pickNone struct{}

func (pickNone) Pick(dst []uint16, _ *dns.Query, _ int) ([]uint16, uint8, bool) {
	return dst, 0, false
}

// A notary signs and denies once it may wait, and records the requests.
type notary struct {
	t     *testing.T
	known map[string]bool
	asked []string
}

func (n *notary) say(ctx context.Context, what string) bool {
	if ctx == nil && !n.known[what] {
		return false
	}
	n.known[what] = true
	n.asked = append(n.asked, what)
	return true
}

func (n *notary) Sign(ctx context.Context, _ *dns.Query, r *dns.Reply, s Set) (int, bool) {
	if !n.say(ctx, fmt.Sprintf("%s %s %d of %d wild=%d", dns.Text(s.Owner), typeName(s.Type), s.Count, len(s.Records), s.Wildcard)) {
		return 0, false
	}
	sig := &miekg.RRSIG{Hdr: miekg.RR_Header{Name: ".", Rrtype: miekg.TypeRRSIG, Class: miekg.ClassINET}, TypeCovered: s.Type, SignerName: "x.test.", Signature: "AAAA"}
	var buf [512]byte
	end, err := miekg.PackRR(sig, buf[:], 0, nil, false)
	if err != nil {
		n.t.Fatal(err)
	}
	r.Buf = append(append(r.Buf, byte(s.Pointer>>8), byte(s.Pointer)), buf[1:end]...)
	return 1, true
}

func (n *notary) Deny(ctx context.Context, _ *dns.Query, r *dns.Reply, d Denial) bool {
	var types []string
	if d.Types != nil {
		raw := append([]byte{0, 0, byte(miekg.TypeNSEC), 0, 1, 0, 0, 0, 0, 0, byte(1 + len(d.Types)), 0}, d.Types...)
		rr, _, err := miekg.UnpackRR(raw, 0)
		if err != nil {
			n.t.Fatal(err)
		}
		for _, typ := range rr.(*miekg.NSEC).TypeBitMap {
			types = append(types, typeName(typ))
		}
	}
	if !bytes.HasSuffix(d.Name, d.Origin) || d.TTL != 5 {
		n.t.Errorf("the signer got the denial %+v", d)
	}
	return n.say(ctx, fmt.Sprintf("deny %d %s encloser %s %v", d.Kind, dns.Text(d.Name), dns.Text(d.Name[d.Encloser:]), types))
}

// A directory is a Resolver that makes the first query wait.
type directory struct {
	known bool
	addrs Addresses
}

func (d *directory) Addresses(ctx context.Context, target string, _ uint16) (Addresses, bool) {
	d.known = d.known || ctx != nil
	return d.addrs, d.known && target == "far.away."
}

func TestChoices(t *testing.T) {
	one := parse(t, "x.test.", tiny+"www A 192.0.2.1\nwww A 192.0.2.2\nwww TXT all\nnone A 192.0.2.1\n*.w A 192.0.2.5\n*.w A 192.0.2.6\n")
	one.Choices = []Choice{{"WWW.x.test.", miekg.TypeA, pickLast{}}, {"none.x.test.", miekg.TypeA, pickNone{}}, {"*.w.x.test.", miekg.TypeA, pickLast{}}}
	n := &notary{t: t, known: map[string]bool{}}
	one.Signer = n
	z := serve(t, one)
	for name, want := range map[string]string{"www.x.test.": "192.0.2.2", "none.x.test.": "", "a.w.x.test.": "192.0.2.6"} {
		if got := address(t, z, name); got != want {
			t.Errorf("A of %s: got %s, want %s", name, got, want)
		}
	}
	m := question("a.w.x.test.", miekg.TypeA)
	m.SetEdns0(1232, true)
	r := ask(t, z, m, 1232)
	if len(r.Answer) != 2 || r.Answer[1].Header().Rrtype != miekg.TypeRRSIG || r.Answer[1].Header().Name != "a.w.x.test." {
		t.Errorf("wildcard expansion: got %v, want the record and its signature", r)
	}
	if want := []string{"a.w.x.test. A 1 of 16 wild=2", "deny 3 a.w.x.test. encloser w.x.test. []"}; !slices.Equal(n.asked, want) {
		t.Errorf("the signer was called for %q, want %q", n.asked, want)
	}
	for _, bad := range []Choice{{"x.test.", miekg.TypeMX, pickLast{}}, {"other.", miekg.TypeA, pickLast{}}, {"www.x.test.", miekg.TypeA, nil}} {
		one.Choices = []Choice{bad}
		if err := z.Replace(one); err == nil {
			t.Errorf("Replace accepted %v", bad)
		}
	}
}

func TestTheSignerAnswersForNamesTheZoneLacks(t *testing.T) {
	one := parse(t, "x.test.", tiny+"www A 192.0.2.1\n*.w TXT x\na.b.c A 192.0.2.1\nsub NS ns.other.\nsafe NS ns.other.\nsafe DS 1 13 9 00\n")
	n := &notary{t: t, known: map[string]bool{}}
	one.Signer = n
	z := serve(t, one)
	for _, c := range []struct {
		name string
		typ  uint16
		want []string
	}{
		{"www.x.test.", miekg.TypeA, []string{"www.x.test. A 1 of 16 wild=0"}},
		{"www.x.test.", miekg.TypeTXT, []string{"x.test. SOA", "deny 1 www.x.test. encloser www.x.test. [A RRSIG NSEC]"}},
		{"no.a.x.test.", miekg.TypeA, []string{"x.test. SOA", "deny 0 no.a.x.test. encloser x.test. []"}},
		{"q.w.x.test.", miekg.TypeA, []string{"x.test. SOA", "deny 2 q.w.x.test. encloser w.x.test. [TXT RRSIG NSEC]"}},
		{"b.c.x.test.", miekg.TypeA, []string{"x.test. SOA", "deny 1 b.c.x.test. encloser b.c.x.test. [RRSIG NSEC]"}},
		{"www.sub.x.test.", miekg.TypeA, []string{"deny 4 sub.x.test. encloser sub.x.test. [NS RRSIG NSEC]"}},
		{"www.safe.x.test.", miekg.TypeA, []string{"safe.x.test. DS"}},
	} {
		n.asked = nil
		m := question(c.name, c.typ)
		m.SetEdns0(1232, true)
		r := ask(t, z, m, 1232)
		if r.Rcode == miekg.RcodeServerFailure {
			t.Errorf("%s: got SERVFAIL: %v", c.name, r)
		}
		n.asked = slices.Compact(n.asked) // once when it must not wait, once when it may
		if !slices.EqualFunc(n.asked, c.want, strings.HasPrefix) {
			t.Errorf("%s %s: the signer was called for %q, want %q", c.name, typeName(c.typ), n.asked, c.want)
		}
	}
}

func TestAliases(t *testing.T) {
	one := parse(t, "x.test.", tiny+"www A 192.0.2.1\nwww A 192.0.2.2\nc CNAME www\nhas A 192.0.2.9\nhas TXT x\n")
	one.Choices = []Choice{{"www.x.test.", miekg.TypeA, pickLast{}}}
	one.Aliases = []Alias{{"x.test.", "www.x.test."}, {"has.x.test.", "www.x.test."}, {"far.x.test.", "far.away."}, {"loop.x.test.", "loop.x.test."},
		{"two.x.test.", "x.test."}, {"via.x.test.", "c.x.test."}, {"*.any.x.test.", "www.x.test."}, {"lost.x.test.", "lost.away."}, {"gone.x.test.", "gone.x.test"}}
	one.Resolver = &directory{addrs: Addresses{TTL: 30, Addrs: []netip.Addr{netip.MustParseAddr("198.51.100.1"), netip.MustParseAddr("2001:db8::1")}}}
	z := serve(t, one)
	for name, want := range map[string]string{
		"x.test.": "192.0.2.2", "has.x.test.": "192.0.2.9", "far.x.test.": "198.51.100.1", "two.x.test.": "192.0.2.2", "via.x.test.": "192.0.2.2", "q.any.x.test.": "192.0.2.2",
	} {
		r := ask(t, z, question(name, miekg.TypeA), 512)
		if len(r.Answer) != 1 || r.Answer[0].(*miekg.A).A.String() != want || r.Answer[0].Header().Name != name {
			t.Errorf("A of %s: got %v, want %s", name, r, want)
		}
	}
	for name, want := range map[string]int{"loop.x.test.": miekg.RcodeServerFailure, "lost.x.test.": miekg.RcodeServerFailure} {
		if r := ask(t, z, question(name, miekg.TypeA), 512); r.Rcode != want || len(r.Answer) > 0 {
			t.Errorf("A of %s: got %v, want an empty answer with its rcode", name, r)
		}
	}
	if r := ask(t, z, question("x.test.", miekg.TypeAAAA), 512); r.Rcode != 0 || len(r.Answer) != 0 || len(r.Ns) != 1 {
		t.Errorf("AAAA of an alias whose target has none: got %v", r)
	}
	if r := ask(t, z, question("x.test.", miekg.TypeNS), 512); len(r.Answer) != 1 {
		t.Errorf("NS of an alias: got %v, want 1 record", r)
	}
}

func (n *notary) Chain() uint16 { return 0 }

func (n *notary) SignSet(string, []byte, uint16, uint32, [][]byte) ([][]byte, error) { return nil, nil }

func (n *notary) Forget(string, []byte, uint16, uint32, [][]byte) {}
