package sign_test

import (
	"context"
	"fmt"
	"net/netip"
	"testing"
	"time"

	miekg "github.com/miekg/dns"

	"shuultuur/lib/dns"
	"shuultuur/lib/setting"
	"shuultuur/nameserver"
	"shuultuur/zone"
	"shuultuur/zone/sign"
)

// ask sends a question to a responder as a server does. fresh permits waiting
// for an answer.
func ask(t testing.TB, z nameserver.Responder, name string, typ uint16, fresh bool) *miekg.Msg {
	t.Helper()
	return askCO(t, z, name, typ, fresh, false)
}

// askCO is ask for a client that does, or does not, understand compact denial.
func askCO(t testing.TB, z nameserver.Responder, name string, typ uint16, fresh, co bool) *miekg.Msg {
	t.Helper()
	m := new(miekg.Msg)
	m.SetQuestion(name, typ)
	m.RecursionDesired = false
	m.SetEdns0(4096, true)
	m.IsEdns0().SetCo(co)
	msg, err := m.Pack()
	if err != nil {
		t.Fatal(err)
	}
	var q dns.Query
	q.Client, q.At = netip.MustParseAddrPort("192.0.2.200:4000"), time.Now()
	if s := q.Parse(msg); s != dns.OK {
		t.Fatalf("%s: parsing the query: status %d", name, s)
	}
	var r dns.Reply
	opts := dns.Options{Size: 1232, Max: 65535}
	r.Start(&q, make([]byte, 0, 65535), 65535-opts.Room(&q))
	out := z.Answer(&q, &r, nil)
	if out == dns.Later && fresh {
		r.Start(&q, make([]byte, 0, 65535), 65535-opts.Room(&q))
		out = z.Wait(context.Background(), &q, &r, nil)
	}
	if out != dns.Answered {
		return nil
	}
	var reply miekg.Msg
	if err := reply.Unpack(r.Finish(&opts)); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return &reply
}

// half picks the first of all records.
type half struct{}

func (half) Pick(dst []uint16, _ *dns.Query, _ int) ([]uint16, uint8, bool) {
	return append(dst, 0), 0, false
}

// none picks nothing.
type none struct{}

func (none) Pick(dst []uint16, _ *dns.Query, _ int) ([]uint16, uint8, bool) {
	return dst, 0, false
}

// elsewhere is a Resolver that finds one IPv4 address, with a TTL that counts
// down.
type elsewhere struct{ ttl *uint32 }

func (e elsewhere) Addresses(_ context.Context, _ string, typ uint16) (zone.Addresses, bool) {
	if typ == miekg.TypeAAAA {
		return zone.Addresses{TTL: 60}, true
	}
	*e.ttl--
	return zone.Addresses{TTL: *e.ttl, Addrs: []netip.Addr{netip.MustParseAddr("192.0.2.99")}}, true
}

func serve(t testing.TB, denial string, fresh int) (*zone.Responder, *sign.Signer, []*sign.Key) {
	t.Helper()
	keys := newKeys(t, "example.com.", "ecdsap256sha256")
	s := newSigner(t, sign.Config{Denial: denial, FreshPerSecond: setting.Count(fresh)}, keys)
	z := parseZone(t, "example.com.", zoneText)
	ttl := uint32(300)
	z.Choices = []zone.Choice{{Name: "mail.example.com.", Type: miekg.TypeA, Pick: half{}}, {Name: "*.wild.example.com.", Type: miekg.TypeA, Pick: half{}}, {Name: "txt.example.com.", Type: miekg.TypeTXT, Pick: none{}}}
	z.Aliases = []zone.Alias{{Name: "alias.example.com.", Target: "elsewhere.example.net."}, {Name: "*.aliases.example.com.", Target: "elsewhere.example.net."}}
	z.Resolver = elsewhere{&ttl}
	signed, err := s.Zone(t.Context(), z, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	r := zone.NewResponder()
	if err := r.Replace(signed); err != nil {
		t.Fatal(err)
	}
	return r, s, keys
}

// verify checks all signatures of a section's sets, each of which must have
// one.
func verify(t *testing.T, what string, section []miekg.RR, keys []*sign.Key) {
	t.Helper()
	type owned struct {
		name string
		typ  uint16
	}
	sets := map[owned][]miekg.RR{}
	sigs := map[owned]*miekg.RRSIG{}
	for _, rr := range section {
		if sig, ok := rr.(*miekg.RRSIG); ok {
			sigs[owned{rr.Header().Name, sig.TypeCovered}] = sig
			continue
		}
		o := owned{rr.Header().Name, rr.Header().Rrtype}
		sets[o] = append(sets[o], rr)
	}
	for o, set := range sets {
		if o.typ == miekg.TypeNS && o.name != "example.com." {
			continue // a referral
		}
		sig := sigs[o]
		if sig == nil {
			t.Errorf("%s: %v has no signature", what, o)
			continue
		}
		if set[0].Header().Ttl > sig.OrigTtl || sig.Hdr.Ttl != set[0].Header().Ttl {
			t.Errorf("%s: %v has TTL %d, its signature %d and original TTL %d", what, o, set[0].Header().Ttl, sig.Hdr.Ttl, sig.OrigTtl)
		}
		for _, k := range keys {
			if k.Tag == sig.KeyTag {
				if err := sig.Verify(k.DNSKEY, set); err != nil {
					t.Errorf("%s: %v: %v", what, o, err)
				}
			}
		}
	}
}

func TestEveryAnswerIsSigned(t *testing.T) {
	for _, denial := range []string{sign.NSEC, sign.NSEC3, sign.Compact} {
		r, s, keys := serve(t, denial, 0)
		for _, tt := range []struct {
			name  string
			typ   uint16
			rcode int
			count int // records in the answer section, without signatures
		}{
			{"example.com.", miekg.TypeSOA, 0, 1},
			{"example.com.", miekg.TypeDNSKEY, 0, 2},
			{"example.com.", miekg.TypeCDS, 0, 1},
			{"example.com.", miekg.TypeCDNSKEY, 0, 1},
			{"mail.example.com.", miekg.TypeA, 0, 1},
			{"mail.example.com.", miekg.TypeMX, 0, 0},
			{"www.example.com.", miekg.TypeA, 0, 2},
			{"a.wild.example.com.", miekg.TypeA, 0, 1},
			{"b.c.wild.example.com.", miekg.TypeTXT, 0, 1},
			{"d.wild.example.com.", miekg.TypeMX, 0, 0},
			{"alias.example.com.", miekg.TypeA, 0, 1},
			{"alias.example.com.", miekg.TypeAAAA, 0, 0},
			{"alias.example.com.", miekg.TypeMX, 0, 0},
			{"x.aliases.example.com.", miekg.TypeA, 0, 1},
			{"x.aliases.example.com.", miekg.TypeAAAA, 0, 0},
			{"txt.example.com.", miekg.TypeTXT, 0, 0},
			{"empty.example.com.", miekg.TypeA, 0, 0},
			{"nothing.example.com.", miekg.TypeA, miekg.RcodeNameError, 0},
			{"x.nothing.example.com.", miekg.TypeA, miekg.RcodeNameError, 0},
			{"insecure.example.com.", miekg.TypeDS, 0, 0},
			{"www.insecure.example.com.", miekg.TypeA, 0, 0},
			{"www.secure.example.com.", miekg.TypeA, 0, 0},
			{"secure.example.com.", miekg.TypeDS, 0, 1},
		} {
			what := fmt.Sprintf("%s: %s %s", denial, tt.name, miekg.TypeToString[tt.typ])
			m := ask(t, r, tt.name, tt.typ, true)
			if m == nil {
				t.Errorf("%s: no answer", what)
				continue
			}
			want := tt.rcode
			if denial == sign.Compact {
				want = 0
			}
			if m.Rcode != want {
				t.Errorf("%s: got %s, want %s", what, miekg.RcodeToString[m.Rcode], miekg.RcodeToString[want])
			}
			count, denied := 0, false
			for _, rr := range m.Answer {
				if rr.Header().Rrtype != miekg.TypeRRSIG {
					count++
				}
			}
			for _, rr := range m.Ns {
				var types []uint16
				switch rr := rr.(type) {
				case *miekg.NSEC:
					types, denied = rr.TypeBitMap, true
				case *miekg.NSEC3:
					types, denied = rr.TypeBitMap, true
				}
				if rr.Header().Name == tt.name {
					for _, typ := range types {
						if count == 0 && (typ == tt.typ || typ == miekg.TypeNone) {
							t.Errorf("%s: the type is denied, but the bitmap has it: %s", what, rr)
						}
					}
				}
			}
			if count != tt.count {
				t.Errorf("%s: got %d records, want %d:\n%s", what, count, tt.count, m)
			}
			if count == 0 && !denied && tt.name != "www.secure.example.com." {
				t.Errorf("%s: no record denies the type:\n%s", what, m)
			}
			verify(t, what, m.Answer, keys)
			verify(t, what, m.Ns, keys)
		}
		// All of it is cached, also sets with another TTL now.
		before := fresh(s)
		for _, name := range []string{"mail.example.com.", "alias.example.com.", "a.wild.example.com."} {
			if m := ask(t, r, name, miekg.TypeA, false); m == nil {
				t.Errorf("%s: no cached answer for %s", denial, name)
			}
		}
		if fresh(s) != before {
			t.Errorf("%s: %d cached signatures were made again", denial, fresh(s)-before)
		}
	}
}

func TestClientsThatUnderstandCompactDenialGetTheCode(t *testing.T) {
	for _, tt := range []struct {
		denial, name string
		co           bool
		rcode        int
		answered     bool // with the flag
	}{
		{sign.Compact, "nothing.example.com.", false, miekg.RcodeSuccess, false},
		{sign.Compact, "nothing.example.com.", true, miekg.RcodeNameError, true},
		{sign.Compact, "ns1.example.com.", true, miekg.RcodeSuccess, true},
		{sign.NSEC, "nothing.example.com.", true, miekg.RcodeNameError, false},
	} {
		r, _, keys := serve(t, tt.denial, 0)
		m := askCO(t, r, tt.name, miekg.TypeTXT, true, tt.co)
		if m == nil || m.Rcode != tt.rcode || m.IsEdns0().Co() != tt.answered {
			t.Errorf("query %+v: got\n%s", tt, m)
			continue
		}
		verify(t, tt.name, m.Ns, keys)
	}
}

func TestFreshSignaturesAreBounded(t *testing.T) {
	r, s, _ := serve(t, sign.Compact, 50)
	failed := 0
	for i := range 500 {
		m := ask(t, r, fmt.Sprintf("x%d.example.com.", i), miekg.TypeA, true)
		if m.Rcode == miekg.RcodeServerFailure {
			failed++
		}
	}
	if failed == 0 || refused(s) == 0 {
		t.Errorf("500 fresh denials with a limit of 50 a second: %d failed, %d counted as refused; want some", failed, refused(s))
	}
	// Earlier signatures remain.
	if m := ask(t, r, "ns1.example.com.", miekg.TypeA, false); m == nil || m.Rcode != 0 {
		t.Errorf("name with a cached signature under load: got %v, want an answer", m)
	}
}

func TestNothingIsSignedWithoutAContext(t *testing.T) {
	r, s, _ := serve(t, sign.Compact, 0)
	if m := ask(t, r, "nothing.example.com.", miekg.TypeA, false); m != nil {
		t.Errorf("denial that needs signing: Answer returned %v, want it deferred", m)
	}
	if fresh(s) != 0 {
		t.Errorf("Answer made %d signatures, although it must not wait", fresh(s))
	}
}

func BenchmarkSignRemembered(b *testing.B) {
	r, _, _ := serve(b, sign.Compact, 0)
	ask(b, r, "nothing.example.com.", miekg.TypeA, true)
	for b.Loop() {
		ask(b, r, "nothing.example.com.", miekg.TypeA, false)
	}
}

// fresh and refused are counts of signatures on demand.
func fresh(s *sign.Signer) uint64   { n, _, _ := s.Counts(); return n }
func refused(s *sign.Signer) uint64 { _, _, n := s.Counts(); return n }

// TestAnNSECThatIsAskedForIsFound: with compact denial each name has one.
func TestAnNSECThatIsAskedForIsFound(t *testing.T) {
	r, _, _ := serve(t, sign.Compact, 50)
	for _, name := range []string{"example.com.", "ns1.example.com.", "nothing.example.com.", "a.b.nothing.example.com."} {
		m := ask(t, r, name, miekg.TypeNSEC, true)
		if m.Rcode != miekg.RcodeSuccess || len(m.Answer) != 2 || len(m.Ns) != 0 {
			t.Errorf("%s: got %v, want its NSEC record", name, m)
			continue
		}
		x, ok := m.Answer[0].(*miekg.NSEC)
		if !ok || x.Hdr.Name != name || x.NextDomain != `\000.`+name {
			t.Errorf("%s: got %v", name, m.Answer[0])
			continue
		}
		has := map[uint16]bool{}
		for _, typ := range x.TypeBitMap {
			has[typ] = true
		}
		if !has[miekg.TypeNSEC] || !has[miekg.TypeRRSIG] || has[miekg.TypeNXNAME] != (len(name) > len("ns1.example.com.")) {
			t.Errorf("%s: its types are %v", name, x.TypeBitMap)
		}
	}
	// The other kinds have their records beforehand, or deny them.
	n, _, _ := serve(t, sign.NSEC3, 50)
	if m := ask(t, n, "ns1.example.com.", miekg.TypeNSEC, true); len(m.Answer) != 0 {
		t.Errorf("with NSEC3: got %v, want no NSEC record", m)
	}
}
