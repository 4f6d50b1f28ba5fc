package sign_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	miekg "github.com/miekg/dns"

	"shuultuur/zone"
	"shuultuur/zone/sign"
)

// names is a changing zone: the records of each name, as text without owner, and
// the target of each alias.
type names struct {
	records map[string][]string
	alias   map[string]string
}

// anyName returns one of a few names, so that many are ancestors of others.
func anyName(rnd *rand.Rand) string {
	labels := []string{"a", "b", "c", "*", "d", `\000`, "longer-label"}
	name := "example.com."
	for range 1 + rnd.IntN(4) {
		name = labels[rnd.IntN(len(labels))] + "." + name
	}
	return name
}

// turn gives a name other records, or none, and returns the changed names.
func (n names) turn(rnd *rand.Rand, name string) []string {
	delete(n.records, name)
	delete(n.alias, name)
	glue := "ns." + name
	delete(n.records, glue)
	kind := rnd.IntN(11)
	if strings.HasPrefix(name, "*.") && (kind == 6 || kind == 7) {
		kind = 9 // other tools do not read delegations of wildcards
	}
	switch kind {
	case 0, 1, 2, 3: // nothing
	case 4:
		n.records[name] = []string{"300 CNAME " + strings.ToUpper(anyName(rnd))}
	case 5:
		n.records[name] = []string{"300 DNAME other.example.", "300 TXT beside"}
	case 6:
		n.records[name] = []string{"300 NS " + glue, "60 AAAA 2001:db8::1"}
		n.records[glue] = []string{"300 A 192.0.2.9"}
	case 7:
		n.records[name] = []string{"300 NS " + anyName(rnd), "300 DS 1 13 2 " + strings.Repeat("AB", 32)}
	case 8:
		n.alias[name] = "elsewhere.example."
		if rnd.IntN(2) == 0 {
			n.records[name] = []string{"300 TXT alias"}
		}
	default:
		n.records[name] = []string{fmt.Sprintf("300 A 192.0.2.%d", rnd.IntN(256)), "200 A 192.0.2.7", "300 MX 10 Mail.Example.COM.", fmt.Sprintf("300 TXT %d", rnd.IntN(100)), "300 TYPE65400 \\# 1 00"}[rnd.IntN(3):]
	}
	return []string{name, glue}
}

// apex sets the records of the origin for a serial number.
func (n names) apex(serial int, rnd *rand.Rand) {
	n.records["example.com."] = []string{fmt.Sprintf("3600 SOA ns1 hostmaster %d 7200 3600 1209600 300", serial), "3600 NS ns1", "300 MX 10 " + anyName(rnd)}
}

func (n names) add(t testing.TB, name string, records *[]miekg.RR, aliases *[]zone.Alias) {
	t.Helper()
	for _, line := range n.records[name] {
		rr, err := miekg.NewRR("$ORIGIN example.com.\n" + name + " " + line)
		if err != nil {
			t.Fatal(err)
		}
		*records = append(*records, rr)
	}
	if to := n.alias[name]; to != "" {
		*aliases = append(*aliases, zone.Alias{Name: name, Target: to})
	}
}

func (n names) whole(t testing.TB) *zone.Zone {
	z := &zone.Zone{Origin: "example.com."}
	for name := range n.records {
		n.add(t, name, &z.Records, &z.Aliases)
	}
	for name := range n.alias {
		if n.records[name] == nil {
			n.add(t, name, &z.Records, &z.Aliases)
		}
	}
	return z
}

func (n names) change(t testing.TB, which []string) *zone.Change {
	c := &zone.Change{Origin: "example.com.", Names: slices.Compact(slices.Sorted(slices.Values(which)))}
	for _, name := range c.Names {
		n.add(t, name, &c.Records, &c.Aliases)
	}
	return c
}

// plain returns a record without the parts that differ between signings.
func plain(rr miekg.RR) string {
	if sig, ok := rr.(*miekg.RRSIG); ok {
		sig = miekg.Copy(sig).(*miekg.RRSIG)
		sig.Inception, sig.Expiration, sig.Signature = 0, 0, ""
		rr = sig
	}
	return strings.ToLower(rr.String()) // some tools do not keep the case of the origin
}

func lines(rrs []miekg.RR) string {
	var all []string
	for _, rr := range rrs {
		all = append(all, plain(rr))
	}
	return strings.Join(all, "\n")
}

// without returns the lines of records that others does not have.
func without(some, others []miekg.RR) string {
	have := strings.Split(lines(others), "\n")
	return strings.Join(slices.DeleteFunc(strings.Split(lines(some), "\n"), func(l string) bool { return slices.Contains(have, l) }), "\n")
}

// all returns the records of a zone as a transfer sends them.
func all(t testing.TB, r *zone.Responder) (rrs []miekg.RR) {
	t.Helper()
	for wire := range r.Served("example.com.", "").Records() {
		rr, _, err := miekg.UnpackRR(bytes.Clone(wire), 0)
		if err != nil {
			t.Fatal(err)
		}
		rrs = append(rrs, rr)
	}
	slices.SortFunc(rrs, func(a, b miekg.RR) int { return strings.Compare(plain(a), plain(b)) })
	return rrs
}

// verified verifies the signatures of a zone that it has not verified before.
func verified(t *testing.T, rrs []miekg.RR, keys []*sign.Key, seen map[string]bool) {
	t.Helper()
	type key struct {
		name string
		typ  uint16
	}
	sets := map[key][]miekg.RR{}
	for _, rr := range rrs {
		k := key{rr.Header().Name, rr.Header().Rrtype}
		sets[k] = append(sets[k], rr)
	}
	for _, rr := range rrs {
		sig, ok := rr.(*miekg.RRSIG)
		if !ok {
			continue
		}
		set := sets[key{sig.Hdr.Name, sig.TypeCovered}]
		text := fmt.Sprint(sig, set)
		if seen[text] {
			continue
		}
		seen[text] = true
		for _, k := range keys {
			if k.Tag == sig.KeyTag {
				if err := sig.Verify(k.DNSKEY, set); err != nil {
					t.Fatalf("%v over %v: %v", sig, set, err)
				}
			}
		}
	}
}

// TestAChangedZoneIsSignedLikeAWholeOne makes random changes in a signed zone and
// compares answers and transfers with the zone signed as a whole.
func TestAChangedZoneIsSignedLikeAWholeOne(t *testing.T) {
	for _, c := range []sign.Config{{Denial: sign.NSEC}, {Denial: sign.Compact}} {
		t.Run(c.Denial, func(t *testing.T) {
			t.Parallel()
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			changeRandomly(t, c, rand.New(rand.NewPCG(seed, 0)))
		})
	}
}

func changeRandomly(t *testing.T, config sign.Config, rnd *rand.Rand) {
	keys := newKeys(t, "example.com.", "ed25519")
	mine, other := newSigner(t, config, keys), newSigner(t, config, keys)
	n := names{map[string][]string{}, map[string]string{}}
	n.apex(1, rnd)
	serve := func(r *zone.Responder, s *sign.Signer) {
		signed, err := s.Zone(t.Context(), n.whole(t), time.Now())
		if err == nil {
			err = r.Replace(signed)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	r, fresh := zone.NewResponder(), zone.NewResponder()
	serve(r, mine)
	seen := map[string]bool{}
	whole := 0
	const steps = 60
	for step := range steps {
		which := []string{"example.com."}
		for range rnd.IntN(1 + step%4*2) {
			which = append(which, n.turn(rnd, anyName(rnd))...)
		}
		check := config.Denial != sign.Compact && (step == steps/2 || step == steps-1)
		if check { // other tools expect no types in a bitmap that the name does not have
			which = slices.AppendSeq(which, maps.Keys(n.alias))
			clear(n.alias)
		}
		n.apex(step+2, rnd)
		before := r.Served("example.com.", "")
		c, err := mine.Change(n.change(t, which), time.Now())
		if err == nil {
			err = r.Change(c)
		}
		switch {
		case errors.Is(err, zone.ErrWhole):
			whole++
			serve(r, mine)
		case err != nil:
			t.Fatalf("step %d: %v", step, err)
		default:
			sameDifference(t, r, before)
		}
		serve(fresh, other)
		got, want := all(t, r), all(t, fresh)
		if lines(got) != lines(want) {
			t.Fatalf("step %d, after %v: the changed zone has\n%s\nthe whole one\n%s", step, which, without(got, want), without(want, got))
		}
		verified(t, got, keys, seen)
		for _, rr := range got {
			if sig, ok := rr.(*miekg.RRSIG); ok {
				if left := time.Unix(int64(sig.Expiration), 0).Sub(mine.Renew("")); left < 4*24*time.Hour {
					t.Fatalf("step %d: at the next signing, %v has %v left, want at least 4 days", step, sig, left)
				}
			}
		}
		have, expected := r.Zones()[0], fresh.Zones()[0]
		if have.Bytes, expected.Bytes = 0, 0; have != expected {
			t.Fatalf("step %d: Info of the changed zone is %+v, of the whole one %+v", step, have, expected)
		}
		for i := range 40 {
			name := anyName(rnd)
			if i < len(which) {
				name = which[i]
			}
			for _, typ := range []uint16{miekg.TypeA, miekg.TypeDS, miekg.TypeTXT, miekg.TypeANY, miekg.TypeSOA} {
				a, b := ask(t, r, name, typ, true), ask(t, fresh, name, typ, true)
				if x, y := answer(a), answer(b); x != y {
					t.Fatalf("step %d: answer to %s %s from the changed zone\n%s\nfrom the whole one\n%s", step, name, miekg.TypeToString[typ], x, y)
				}
			}
		}
		if check {
			path := writeZone(t, &zone.Zone{Records: got})
			tool(t, "dnssec-verify", "-o", "example.com.", path)
			tool(t, "ldns-verify-zone", path)
		}
	}
	t.Logf("%d names, %d of %d changes took the whole zone", len(n.records), whole, steps)
	if whole > steps/3 && !config.OptOut {
		t.Errorf("%d of %d changes signed the whole zone, want at most a third", whole, steps)
	}
}

func answer(m *miekg.Msg) string {
	if m == nil {
		return "none"
	}
	return fmt.Sprintf("%s aa=%v tc=%v\n%s\n--\n%s\n--\n%s", miekg.RcodeToString[m.Rcode], m.Authoritative, m.Truncated, lines(m.Answer), lines(m.Ns), lines(m.Extra))
}

// sameDifference compares a change's own difference with the zones before and
// after it.
func sameDifference(t *testing.T, r *zone.Responder, before *zone.Served) {
	t.Helper()
	after := r.Served("example.com.", "")
	gone, come, ok := after.Since(before)
	if !ok {
		t.Fatal("Since does not know the previous version")
	}
	records := map[string]int{}
	for wire := range before.Records() {
		records[string(wire)]++
	}
	for _, wire := range gone {
		records[string(wire)]--
	}
	for _, wire := range come {
		records[string(wire)]++
	}
	for wire := range after.Records() {
		records[string(wire)]--
	}
	for wire, n := range records {
		if n != 0 {
			rr, _, _ := miekg.UnpackRR([]byte(wire), 0)
			t.Fatalf("the difference does not lead from one version to the other: %v %d", rr, n)
		}
	}
}
