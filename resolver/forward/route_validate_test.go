package forward

import (
	"context"
	"crypto"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	miekg "github.com/miekg/dns"

	"shuultuur/lib/dns"
	"shuultuur/lib/setting"
	"shuultuur/resolver/validate"
)

// A keyedZone is a zone with a key, whose answers are signed as they are given.
type keyedZone struct {
	t    *testing.T
	name string
	key  *miekg.DNSKEY
	sign crypto.Signer
}

func newKeyedZone(t *testing.T, name string) *keyedZone {
	t.Helper()
	z := &keyedZone{t: t, name: name}
	z.key = &miekg.DNSKEY{Hdr: miekg.RR_Header{Name: name, Rrtype: miekg.TypeDNSKEY, Class: 1, Ttl: 300}, Flags: 257, Protocol: 3, Algorithm: miekg.ED25519}
	k, err := z.key.Generate(256)
	if err != nil {
		t.Fatal(err)
	}
	z.sign = k.(crypto.Signer)
	return z
}

func record(t *testing.T, s string) miekg.RR {
	t.Helper()
	rr, err := miekg.NewRR(s)
	if err != nil {
		t.Fatal(err)
	}
	return rr
}

// set returns an RRset of records with its signature.
func (z *keyedZone) set(records ...string) []miekg.RR {
	var set []miekg.RR
	for _, s := range records {
		set = append(set, record(z.t, s))
	}
	return z.signed(set)
}

func (z *keyedZone) signed(set []miekg.RR) []miekg.RR {
	now := time.Now()
	sig := &miekg.RRSIG{Hdr: miekg.RR_Header{Ttl: 300}, Algorithm: miekg.ED25519, SignerName: z.name, KeyTag: z.key.KeyTag(),
		Inception: uint32(now.Add(-time.Hour).Unix()), Expiration: uint32(now.Add(time.Hour).Unix())}
	if err := sig.Sign(z.sign, set); err != nil {
		z.t.Fatal(err)
	}
	return append(set, sig)
}

func (z *keyedZone) ds() string { return z.key.ToDS(miekg.SHA256).String() }

// answers serves fixed answers by "name type"; what is missing does not exist, with the
// authority section denial.
func answers(t *testing.T, all map[string][]miekg.RR, denial []miekg.RR) *server {
	t.Helper()
	return serve(t, func(q *miekg.Msg, _ bool) *miekg.Msg {
		m := new(miekg.Msg).SetReply(q)
		m.RecursionAvailable, m.AuthenticatedData = true, true
		m.SetEdns0(1232, true)
		x := q.Question[0]
		found, ok := all[strings.ToLower(x.Name)+" "+miekg.TypeToString[x.Qtype]]
		if m.Answer = found; !ok {
			m.Rcode, m.Ns = miekg.RcodeNameError, denial
		}
		return m
	})
}

func TestRoutesAreValidatedWhereTheChainHolds(t *testing.T) {
	t.Parallel()
	root, held, island, anchored := newKeyedZone(t, "."), newKeyedZone(t, "held."), newKeyedZone(t, "island."), newKeyedZone(t, "anchored.")
	public := map[string][]miekg.RR{
		". DNSKEY":   root.signed([]miekg.RR{root.key}),
		"held. DS":   root.set(held.ds()),
		"split. DS":  root.set(newKeyedZone(t, "split.").ds()),
		"elsewhere.": nil,
	}
	authority := serve(t, func(q *miekg.Msg, _ bool) *miekg.Msg {
		m := new(miekg.Msg).SetReply(q)
		m.SetEdns0(1232, true)
		x := q.Question[0]
		var ok bool
		switch m.Answer, ok = public[strings.ToLower(x.Name)+" "+miekg.TypeToString[x.Qtype]]; {
		case ok:
		case x.Name == "island.": // it is delegated, without DS
			m.Ns = append(root.set(". 60 SOA . . 1 2 3 4 60"), root.set("island. 60 NSEC zz. NS RRSIG NSEC")...)
		default:
			m.Rcode = miekg.RcodeNameError
			m.Ns = append(root.set(". 60 SOA . . 1 2 3 4 60"), root.set(". 60 NSEC . NS SOA RRSIG NSEC DNSKEY")...)
		}
		return m
	})
	changed := held.set("bad.held. 60 A 192.0.2.1")
	changed[0] = record(t, "bad.held. 60 A 192.0.2.9")
	inside := answers(t, map[string][]miekg.RR{
		"held. DNSKEY":     held.signed([]miekg.RR{held.key}),
		"www.held. A":      held.set("www.held. 60 A 192.0.2.1"),
		"bad.held. A":      changed,
		"www.sub.held. A":  held.set("www.sub.held. 60 A 192.0.2.1"),
		"plain.held. A":    {record(t, "plain.held. 60 A 192.0.2.1")},
		"www.lan. A":       {record(t, "www.lan. 60 A 192.0.2.1")},
		"www.split. A":     {record(t, "www.split. 60 A 192.0.2.1")},
		"island. DNSKEY":   island.signed([]miekg.RR{island.key}),
		"www.island. A":    island.set("www.island. 60 A 192.0.2.1"),
		"www.excepted. A":  {record(t, "www.excepted. 60 A 192.0.2.1")},
		"anchored. DNSKEY": anchored.signed([]miekg.RR{anchored.key}),
		"www.anchored. A":  anchored.set("www.anchored. 60 A 192.0.2.1"),
		"bad.anchored. A":  {record(t, "bad.anchored. 60 A 192.0.2.1")},
		"held. DS":         {record(t, "held. 60 DS 1 15 2 00")}, // a lie, which the root is asked about instead
	}, nil)
	routes := map[string]setting.OneOrMore[string]{}
	for _, d := range []string{"held", "lan", "split", "island", "anchored", "excepted", "sub.held"} {
		routes[d] = []string{inside.addr}
	}
	f := start(t, Config{Upstreams: []string{authority.addr}, Routes: routes, Validate: true,
		Config: validate.Config{Anchors: []string{root.ds(), anchored.ds()}, Negative: []string{"excepted"}}})
	for _, x := range []struct{ name, want string }{
		{"www.held", "secure"},
		{"bad.held", "bogus"},
		{"plain.held", "bogus"},
		{"www.lan", "insecure"},    // it does not exist elsewhere
		{"gone.lan", "insecure"},   // nor does this name at all, without any proof
		{"www.split", "insecure"},  // signed elsewhere, but not here
		{"www.island", "insecure"}, // signed here, but nobody vouches for it
		{"www.anchored", "secure"},
		{"bad.anchored", "bogus"},
		{"www.excepted", "insecure"},
		{"www.elsewhere", "secure"}, // its absence, without a route
	} {
		if got, _ := ours(f, x.name, miekg.TypeA); !strings.HasPrefix(got, x.want) {
			t.Errorf("%s is %s, want %s", x.name, got, x.want)
		}
	}
}

// TestAnOutageAboveDoesNotLowerTheGuard cuts a route's zone off from what vouches for it.
func TestAnOutageAboveDoesNotLowerTheGuard(t *testing.T) {
	t.Parallel()
	root, held := newKeyedZone(t, "."), newKeyedZone(t, "held.")
	var dead atomic.Bool
	authority := serve(t, func(q *miekg.Msg, _ bool) *miekg.Msg {
		if dead.Load() {
			return new(miekg.Msg).SetRcode(q, miekg.RcodeServerFailure)
		}
		m := new(miekg.Msg).SetReply(q)
		m.SetEdns0(1232, true)
		switch q.Question[0].Qtype {
		case miekg.TypeDNSKEY:
			m.Answer = root.signed([]miekg.RR{root.key})
		case miekg.TypeDS:
			m.Answer = root.set(held.ds())
		}
		return m
	})
	inside := answers(t, map[string][]miekg.RR{
		"held. DNSKEY": held.signed([]miekg.RR{held.key}),
		"www.held. A":  held.set("www.held. 60 A 192.0.2.1"),
		"bad.held. A":  {record(t, "bad.held. 60 A 192.0.2.1")},
		"www.lan. A":   {record(t, "www.lan. 60 A 192.0.2.1")},
	}, nil)
	cfg := Config{Upstreams: []string{authority.addr}, Routes: map[string]setting.OneOrMore[string]{"held": {inside.addr}, "lan": {inside.addr}},
		Validate: true, Config: validate.Config{Anchors: []string{root.ds()}}}
	f := start(t, cfg)
	if got, _ := ours(f, "bad.held", miekg.TypeA); !strings.HasPrefix(got, "bogus") {
		t.Errorf("before: %s, want bogus", got)
	}
	dead.Store(true)
	if got, _ := ours(f, "www.lan", miekg.TypeA); got != "insecure" {
		t.Errorf("an unsigned local name in the outage: %s, want insecure", got)
	}
	if got, _ := ours(f, "bad.held", miekg.TypeA); !strings.HasPrefix(got, "bogus") {
		t.Errorf("in the outage: %s, want bogus", got)
	}
	// What could never be verified is passed on, and not called verified.
	if got, _ := ours(start(t, cfg), "www.held", miekg.TypeA); got != "insecure" {
		t.Errorf("started in the outage: %s, want insecure", got)
	}
}

// TestARouteThatIgnoresQuestionsForKeys is a router that drops types that it does not know.
func TestARouteThatIgnoresQuestionsForKeys(t *testing.T) {
	t.Parallel()
	root := newKeyedZone(t, ".")
	router := serve(t, func(q *miekg.Msg, tcp bool) *miekg.Msg {
		if q.Question[0].Qtype != miekg.TypeA {
			return nil
		}
		return says("192.0.2.1")(q, tcp)
	})
	f := start(t, Config{Upstreams: []string{router.addr}, Routes: map[string]setting.OneOrMore[string]{"lan": {router.addr}},
		Validate: true, Config: validate.Config{Anchors: []string{root.ds()}}})
	wire, _ := dns.Name("www.lan")
	for range 2 {
		msg, _, err := f.Exchange(context.Background(), wire, miekg.TypeA, miekg.ClassINET, Option{})
		var e *Error
		if errors.As(err, &e) || len(msg) < 12 || msg[3]&15 != 0 || msg[7] != 1 {
			t.Fatalf("got %x, %v; want the address", msg, err)
		}
	}
}

// TestAnAliasEndsWhereOthersKnowMore has upstreams that also say, wrongly, what an alias to a
// name of a route leads to.
func TestAnAliasEndsWhereOthersKnowMore(t *testing.T) {
	t.Parallel()
	root := newKeyedZone(t, ".")
	authority := serve(t, func(q *miekg.Msg, _ bool) *miekg.Msg {
		m := new(miekg.Msg).SetReply(q)
		m.SetEdns0(1232, true)
		switch x := q.Question[0]; {
		case x.Qtype == miekg.TypeDNSKEY:
			m.Answer = root.signed([]miekg.RR{root.key})
		case strings.EqualFold(x.Name, "app.") && x.Qtype == miekg.TypeA:
			m.Rcode = miekg.RcodeNameError // of the target
			m.Answer = root.set("app. 60 CNAME nas.lan.")
			m.Ns = append(root.set(". 60 SOA . . 1 2 3 4 60"), root.set(". 60 NSEC app. NS SOA RRSIG NSEC DNSKEY")...)
		case strings.EqualFold(x.Name, "forged.") && x.Qtype == miekg.TypeA:
			m.Answer = []miekg.RR{record(t, "forged. 60 CNAME nas.lan.")}
		case strings.EqualFold(x.Name, "half.") && x.Qtype == miekg.TypeA: // an authority that does not follow
			m.Answer = root.set("half. 60 CNAME whole.")
		case strings.EqualFold(x.Name, "whole.") && x.Qtype == miekg.TypeA:
			m.Answer = root.set("whole. 60 A 192.0.2.3")
		default:
			m.Rcode = miekg.RcodeNameError
			m.Ns = append(root.set(". 60 SOA . . 1 2 3 4 60"), root.set(". 60 NSEC app. NS SOA RRSIG NSEC DNSKEY")...)
		}
		return m
	})
	router := answers(t, map[string][]miekg.RR{
		"nas.lan. A":  {record(t, "nas.lan. 60 A 192.0.2.1")},
		"out.lan. A":  {record(t, "out.lan. 60 CNAME whole."), record(t, "whole. 60 A 192.0.2.66")},
		"both.lan. A": {record(t, "both.lan. 60 CNAME nas.lan."), record(t, "nas.lan. 60 A 192.0.2.1")},
	}, nil)
	f := start(t, Config{Upstreams: []string{authority.addr}, Routes: map[string]setting.OneOrMore[string]{"lan": {router.addr}},
		Validate: true, Config: validate.Config{Anchors: []string{root.ds()}}})
	for _, x := range []struct{ name, status, addr string }{
		{"app", "secure", "192.0.2.1"},
		{"forged", "bogus", ""},
		{"half", "secure", "192.0.2.3"},
		{"out.lan", "insecure", "192.0.2.3"},
		{"both.lan", "insecure", "192.0.2.1"},
	} {
		if got, _ := ours(f, x.name, miekg.TypeA); !strings.HasPrefix(got, x.status) {
			t.Errorf("%s is %s, want %s", x.name, got, x.status)
		}
		if got := get(f, x.name); x.addr != "" && got != x.addr {
			t.Errorf("%s has the address %s, want %s", x.name, got, x.addr)
		}
	}
}

// TestValidAliasesOutliveABogusTarget has an upstream that spoils what an alias leads to. Who knows
// the target itself needs the alias only; for all others the answer is bogus.
func TestValidAliasesOutliveABogusTarget(t *testing.T) {
	t.Parallel()
	root := newKeyedZone(t, ".")
	spoilt := func(set []miekg.RR) []miekg.RR { return set[:len(set)-1] } // without its signature
	records := map[string][]miekg.RR{
		". DNSKEY":     root.signed([]miekg.RR{root.key}),
		"app. A":       append(root.set("app. 60 CNAME nas.home."), record(t, "nas.home. 60 A 192.0.2.66")),
		"long. A":      append(append(root.set("long. 60 CNAME app."), root.set("app. 60 CNAME nas.home.")...), record(t, "nas.home. 60 A 192.0.2.66")),
		"middle. A":    append(append(root.set("middle. 60 CNAME forged."), record(t, "forged. 60 CNAME nas.home.")), record(t, "nas.home. 60 A 192.0.2.66")),
		"forged. A":    {record(t, "forged. 60 CNAME nas.home."), record(t, "nas.home. 60 A 192.0.2.66")},
		"nas.home. A":  spoilt(root.set("nas.home. 60 A 192.0.2.66")),
		"tree. DNAME":  root.set("tree. 60 DNAME home."),
		"nas.tree. A":  append(root.set("tree. 60 DNAME home."), record(t, "nas.tree. 60 CNAME nas.home."), record(t, "nas.home. 60 A 192.0.2.66")),
		"bare.tree. A": append(root.set("tree. 60 DNAME home."), record(t, "bare.home. 60 A 192.0.2.66")),
		"plain. A":     {record(t, "plain. 60 A 192.0.2.66")},
	}
	upstream := answers(t, records, nil)
	f := start(t, Config{Upstreams: []string{upstream.addr}, Validate: true, Config: validate.Config{Anchors: []string{root.ds()}}})
	for _, x := range []struct{ name, last string }{
		{"app", "nas.home."},
		{"long", "nas.home."},
		{"middle", "forged."},
		{"nas.tree", "nas.home."},
		{"forged", ""},
		{"nas.home", ""},
		{"bare.tree", ""}, // no alias tells a client what the name is
		{"plain", ""},
	} {
		if got, _ := ours(f, x.name, miekg.TypeA); !strings.HasPrefix(got, "bogus") {
			t.Errorf("%s is %s, want bogus", x.name, got)
		}
		wire, err := dns.Name(x.name)
		if err != nil {
			t.Fatal(err)
		}
		for _, do := range []bool{false, true} {
			msg, ede, err := f.Ask(t.Context(), wire, miekg.TypeA, miekg.ClassINET, do, false)
			if x.last == "" {
				if err == nil || ede == 0 || msg != nil {
					t.Errorf("%s: got %x with error %d, %v; want it refused", x.name, msg, ede, err)
				}
				continue
			}
			c, open := dns.OpenAlias(msg)
			var m miekg.Msg
			if err != nil || !open || dns.Text(c.Last) != x.last || m.Unpack(msg) != nil || !m.AuthenticatedData {
				t.Errorf("%s: got %v, %v; want the aliases as far as %s", x.name, &m, err, x.last)
			}
			for _, rr := range m.Answer {
				if rr.Header().Rrtype == miekg.TypeA || !do && rr.Header().Rrtype == miekg.TypeRRSIG {
					t.Errorf("%s: %v was not validated, or not asked for", x.name, rr)
				}
			}
		}
	}
}
