package redins

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	miekg "github.com/miekg/dns"

	"shuultuur/filter"
	"shuultuur/lib/dns"
	"shuultuur/lib/wait/waittest"
	"shuultuur/test/redistest"
	"shuultuur/test/zonetest"
	"shuultuur/zone"
	"shuultuur/zone/sign"
)

// flatZone is a zone whose CNAMEs are flattened.
var flatZone = map[string]string{
	"@": `{"ns":{"ttl":300,"records":[{"host":"ns.example.net."}]},"a":{"ttl":300,"records":[{"ip":"192.0.2.1"}]},
	       "mx":{"ttl":300,"records":[{"host":"mx.example.com.","preference":10}]}}`,
	"www": `{"a":{"ttl":300,"records":[{"ip":"192.0.2.2","weight":1},{"ip":"192.0.2.3"}],"filter":{"order":"weighted","count":"single"}},
	         "txt":{"ttl":60,"records":[{"text":"w"}]},
	         "mx":{"ttl":300,"records":[{"host":"mx.example.com.","preference":20}]},
	         "srv":{"ttl":300,"records":[{"target":"sip.example.com.","priority":1,"weight":2,"port":3}]},
	         "caa":{"ttl":300,"records":[{"tag":"issue","value":"ca.example","flag":0}]},
	         "tlsa":{"ttl":300,"records":[{"usage":3,"selector":1,"matching_type":1,"certificate":"1CFC"}]},
	         "ptr":{"ttl":300,"domain":"p.example.com."},
	         "rr":["300 SSHFP 1 1 A0B1"]}`,
	"alias":    `{"cname":{"ttl":100,"host":"WWW.example.com."}}`,
	"chain":    `{"cname":{"ttl":100,"host":"alias.example.com."}}`,
	"apex":     `{"cname":{"ttl":100,"host":"example.com."}}`,
	"out":      `{"cname":{"ttl":50,"host":"cdn.example.net."}}`,
	"toout":    `{"cname":{"ttl":100,"host":"out.example.com."}}`,
	"sub":      `{"ns":{"ttl":300,"records":[{"host":"ns.example.net."}]}}`,
	"tosub":    `{"cname":{"ttl":100,"host":"host.sub.example.com."}}`,
	"host.sub": `{"cname":{"ttl":100,"host":"www.example.com."}}`,
	"old":      `{"dname":{"ttl":300,"host":"example.net."}}`,
	"toold":    `{"cname":{"ttl":100,"host":"a.old.example.com."}}`,
	"self":     `{"cname":{"ttl":100,"host":"self.example.com."}}`,
	"one":      `{"cname":{"ttl":100,"host":"two.example.com."}}`,
	"two":      `{"cname":{"ttl":100,"host":"one.example.com."}}`,
	"none":     `{"cname":{"ttl":100,"host":"nothing.example.com."}}`,
	"tonone":   `{"cname":{"ttl":100,"host":"none.example.com."}}`,
	"*.wild":   `{"txt":{"ttl":300,"records":[{"text":"any"}]}}`,
	"towild":   `{"cname":{"ttl":100,"host":"q.wild.example.com."}}`,
	"empty":    `{"cname":{"ttl":100,"host":"wild.example.com."}}`,
	"*.many":   `{"cname":{"ttl":100,"host":"www.example.com."}}`,
	"aname":    `{"aname":{"location":"cdn.example.net."},"txt":{"ttl":300,"records":[{"text":"n"}]}}`,
	"toaname":  `{"cname":{"ttl":100,"host":"aname.example.com."}}`,
	"both":     `{"cname":{"ttl":100,"host":"www.example.com."},"txt":{"ttl":300,"records":[{"text":"not this"}]}}`,
}

var flatAnswers = map[string]string{
	"alias A":      "NOERROR alias.example.com. 300 IN A 192.0.2.2",
	"alias TXT":    `NOERROR alias.example.com. 60 IN TXT "w"`,
	"alias MX":     "NOERROR alias.example.com. 300 IN MX 20 mx.example.com.",
	"alias SRV":    "NOERROR alias.example.com. 300 IN SRV 1 2 3 sip.example.com.",
	"alias CAA":    `NOERROR alias.example.com. 300 IN CAA 0 issue "ca.example"`,
	"alias TLSA":   "NOERROR alias.example.com. 300 IN TLSA 3 1 1 1cfc",
	"alias PTR":    "NOERROR alias.example.com. 300 IN PTR p.example.com.",
	"alias SSHFP":  "NOERROR alias.example.com. 300 IN SSHFP 1 1 A0B1",
	"alias AAAA":   "NOERROR",
	"alias CNAME":  "NOERROR",
	"chain A":      "NOERROR chain.example.com. 300 IN A 192.0.2.2",
	"chain TXT":    `NOERROR chain.example.com. 60 IN TXT "w"`,
	"apex A":       "NOERROR apex.example.com. 300 IN A 192.0.2.1",
	"apex MX":      "NOERROR apex.example.com. 300 IN MX 10 mx.example.com.",
	"apex NS":      "NOERROR",
	"apex SOA":     "NOERROR",
	"out A":        "NOERROR out.example.com. 50 IN CNAME cdn.example.net.",
	"toout A":      "NOERROR toout.example.com. 50 IN CNAME cdn.example.net.",
	"toout TXT":    "NOERROR toout.example.com. 50 IN CNAME cdn.example.net.",
	"tosub A":      "NOERROR tosub.example.com. 100 IN CNAME host.sub.example.com.",
	"toold TXT":    "NOERROR old.example.com. 300 IN DNAME example.net. | a.old.example.com. 300 IN CNAME a.example.net. | toold.example.com. 100 IN CNAME a.old.example.com.",
	"self A":       "NOERROR self.example.com. 100 IN CNAME self.example.com.",
	"one A":        "NOERROR one.example.com. 100 IN CNAME two.example.com. | two.example.com. 100 IN CNAME one.example.com.",
	"none A":       "NOERROR",
	"none TXT":     "NOERROR",
	"tonone A":     "NOERROR",
	"towild TXT":   `NOERROR towild.example.com. 300 IN TXT "any"`,
	"towild A":     "NOERROR",
	"empty TXT":    "NOERROR",
	"x.many A":     "NOERROR x.many.example.com. 300 IN A 192.0.2.2",
	"x.many CAA":   `NOERROR x.many.example.com. 300 IN CAA 0 issue "ca.example"`,
	"toaname A":    "NOERROR toaname.example.com. 60 IN A 192.0.2.1",
	"toaname TXT":  `NOERROR toaname.example.com. 300 IN TXT "n"`,
	"both A":       "NOERROR both.example.com. 300 IN A 192.0.2.2",
	"both TXT":     `NOERROR both.example.com. 60 IN TXT "w"`,
	"nothing A":    "NXDOMAIN",
	"x.chain MX":   "NXDOMAIN",
	"www A":        "NOERROR www.example.com. 300 IN A 192.0.2.2",
	"none2.sub MX": "NOERROR",
}

// putNames writes names as the layout has them.
func putNames(t *testing.T, s *redistest.Server, store *Store, labels map[string]string) {
	t.Helper()
	for label, text := range labels {
		if store.Schema == Redins {
			s.Do(t, "HSET", "redins:zones:example.com.", label, text)
			continue
		}
		var types map[string]json.RawMessage
		if err := json.Unmarshal([]byte(text), &types); err != nil {
			t.Fatal(err)
		}
		for typ, text := range types {
			s.Do(t, "SET", store.set("example.com.", label, strings.ToUpper(typ)), string(text))
		}
		s.Do(t, "SADD", store.labels("example.com."), label)
	}
}

// clocked sets the time of a query, as a server does.
type clocked struct{ *zone.Responder }

func (c clocked) Answer(q *dns.Query, r *dns.Reply, t *filter.Transaction) dns.Outcome {
	q.At = time.Now()
	return c.Responder.Answer(q, r, t)
}

func (c clocked) Wait(ctx context.Context, q *dns.Query, r *dns.Reply, t *filter.Transaction) dns.Outcome {
	q.At = time.Now()
	return c.Responder.Wait(ctx, q, r, t)
}

func TestFlattenedNamesHaveWhatTheirCNAMELeadsTo(t *testing.T) {
	t.Parallel()
	for _, schema := range []Schema{Redins, Z42} {
		for _, denial := range []string{"", sign.NSEC, sign.NSEC3, sign.Compact} {
			t.Run(fmt.Sprintf("%s %s", schema, denial), func(t *testing.T) {
				t.Parallel()
				s := redistest.Start(t)
				store := open(t, s, schema)
				putNames(t, s, store, flatZone)
				s.Do(t, "SET", store.config("example.com."), fmt.Sprintf(`{"cname_flattening":true,"dnssec":%v}`, denial != ""))
				var keys []*sign.Key
				var signer Signer
				if denial != "" {
					s.Do(t, "SET", store.config("example.com.")[:len(store.config("example.com."))-len("config")]+"zsk:pub", "in the test")
					for _, ksk := range []bool{true, false} {
						k, err := sign.Generate("example.com.", "ecdsap256sha256", ksk)
						if err != nil {
							t.Fatal(err)
						}
						keys = append(keys, k)
					}
					with, err := sign.NewWithKeys("example.com.", sign.Config{Denial: denial}, keys)
					if err != nil {
						t.Fatal(err)
					}
					signer = func(z *zone.Zone, _ Keys) (*zone.Zone, error) { return with.Zone(t.Context(), z, time.Now()) }
				}
				s.Do(t, "SADD", string(schema)+":zones", "example.com.")
				cfg := at127(s)
				cfg.Schema = schema
				n := startNode(t, cfg, &upstream{ttl: time.Minute}, signer)
				waittest.Until(t, "the zone is read", func() bool { return n.Stats().Zones == 1 })
				for q, want := range flatAnswers {
					name, typ, _ := strings.Cut(q, " ")
					n.flat(t, name+".example.com.", typ, want, denial, keys)
				}
				var problems []string
				for _, p := range n.Problems() {
					problems = append(problems, p.Error())
				}
				all := strings.Join(problems, "\n")
				for _, want := range []string{"one.example.com: its CNAMEs form a loop", "two.example.com: its", "self.example.com: its", "a name with a CNAME has no other records"} {
					if !strings.Contains(all, want) || len(problems) != 4 {
						t.Errorf("problems:\n%s\nwant %s", all, want)
					}
				}

				// Names that lead to the target have its current addresses.
				putNames(t, s, store, map[string]string{"www": `{"txt":{"ttl":60,"records":[{"text":"new"}]},"aaaa":{"ttl":300,"records":[{"ip":"2001:db8::1"}]},"a":{"ttl":300,"records":[{"ip":"192.0.2.9"}]}}`})
				n.answers(t, "chain.example.com.", "AAAA", "NOERROR chain.example.com. 300 IN AAAA 2001:db8::1")
				n.answers(t, "www.example.com.", "A", "NOERROR www.example.com. 300 IN A 192.0.2.9")
				for q, want := range map[string]string{
					"alias A":    "NOERROR alias.example.com. 300 IN A 192.0.2.9",
					"chain TXT":  `NOERROR chain.example.com. 60 IN TXT "new"`,
					"x.many TXT": `NOERROR x.many.example.com. 60 IN TXT "new"`,
				} {
					name, typ, _ := strings.Cut(q, " ")
					n.answers(t, name+".example.com.", typ, want)
					n.flat(t, name+".example.com.", typ, want, denial, keys)
				}
				// The target comes into existence.
				putNames(t, s, store, map[string]string{"nothing": `{"txt":{"ttl":60,"records":[{"text":"there"}]}}`})
				n.answers(t, "tonone.example.com.", "TXT", `NOERROR tonone.example.com. 60 IN TXT "there"`)
				n.flat(t, "tonone.example.com.", "A", "NOERROR", denial, keys)
			})
		}
	}
}

// flat queries a name, with DNSSEC if there are keys, and checks answer,
// signatures and proof.
func (n *node) flat(t *testing.T, name, typ, want, denial string, keys []*sign.Key) {
	t.Helper()
	m := zonetest.Question(name, miekg.StringToType[typ])
	if keys != nil {
		m.SetEdns0(4096, true)
	}
	r := zonetest.Ask(t, clocked{n.zones}, m, 65535)
	var all []string
	sets := map[string][]miekg.RR{}
	for _, rr := range slices.Concat(r.Answer, r.Ns) {
		if rr.Header().Rrtype != miekg.TypeRRSIG {
			key := rr.Header().Name + " " + miekg.TypeToString[rr.Header().Rrtype]
			sets[key] = append(sets[key], rr)
		}
	}
	for _, rr := range r.Answer {
		if rr.Header().Rrtype != miekg.TypeRRSIG {
			all = append(all, strings.Join(strings.Fields(rr.String()), " "))
		}
	}
	slices.Sort(all)
	parts := strings.Split(strings.TrimPrefix(want, "NOERROR "), " | ")
	slices.Sort(parts)
	if strings.HasPrefix(want, "NOERROR ") {
		want = "NOERROR " + strings.Join(parts, " | ")
	}
	got := strings.TrimSpace(miekg.RcodeToString[r.Rcode] + " " + strings.Join(all, " | "))
	if denial == sign.Compact && want == "NXDOMAIN" {
		want = "NOERROR" // with NXNAME
	}
	if got != want {
		t.Errorf("%s %s: got  %s\nwant %s", name, typ, got, want)
	}
	if keys == nil || strings.Contains(name, ".sub.") {
		return
	}
	if len(r.Answer) == 0 && len(r.Ns) < 4 {
		t.Errorf("%s %s: the empty answer has no proof: %v", name, typ, r)
	}
	for key, set := range sets {
		if strings.HasSuffix(key, " CNAME") && key != name+" CNAME" && !strings.HasPrefix(key, "two") && !strings.HasPrefix(key, "one") {
			continue // from a DNAME
		}
		if strings.HasPrefix(key, "sub.") {
			continue // a referral
		}
		ok := false
		for _, rr := range slices.Concat(r.Answer, r.Ns) {
			sig, is := rr.(*miekg.RRSIG)
			if !is || sig.TypeCovered != set[0].Header().Rrtype || sig.Hdr.Name != set[0].Header().Name {
				continue
			}
			for _, k := range keys {
				ok = ok || k.Tag == sig.KeyTag && sig.Verify(k.DNSKEY, set) == nil
			}
		}
		if !ok {
			t.Errorf("%s %s: %s has no valid signature\n%v", name, typ, key, r)
		}
	}
	// No proof contradicts another one or belongs to another name.
	for _, rr := range r.Ns {
		nsec, is := rr.(*miekg.NSEC)
		if is && nsec.Hdr.Name == name && len(r.Answer) == 0 &&
			(slices.Contains(nsec.TypeBitMap, miekg.StringToType[typ]) || slices.Contains(nsec.TypeBitMap, miekg.TypeCNAME)) {
			t.Errorf("%s %s: the answer is empty, but the bitmap has the type: %v", name, typ, nsec)
		}
	}
}

func TestTheNameOfAFlattenedZoneFollowsItsCNAME(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	putRedins(t, s, "example.com.", `{"cname_flattening":true}`, map[string]string{
		"@":   `{"cname":{"host":"web.example.com."},"ns":{"ttl":300,"records":[{"host":"ns.example.net."}]},"txt":{"ttl":300,"records":[{"text":"own"}]}}`,
		"web": `{"a":{"ttl":300,"records":[{"ip":"192.0.2.8"}]},"mx":{"ttl":300,"records":[{"host":"mx.example.net.","preference":1}]},"txt":{"ttl":300,"records":[{"text":"web"}]}}`,
		"www": `{"cname":{"host":"example.com."}}`,
	})
	n := startNode(t, at127(s), nil, nil)
	waittest.Until(t, "the zone is read", func() bool { return n.Stats().Zones == 1 })
	for _, name := range []string{"", "www."} {
		n.flat(t, name+"example.com.", "A", "NOERROR "+name+"example.com. 300 IN A 192.0.2.8", "", nil)
		n.flat(t, name+"example.com.", "MX", "NOERROR "+name+"example.com. 300 IN MX 1 mx.example.net.", "", nil)
		n.flat(t, name+"example.com.", "TXT", "NOERROR "+name+`example.com. 300 IN TXT "own"`, "", nil)
	}
	n.flat(t, "www.example.com.", "NS", "NOERROR", "", nil)
	n.flat(t, "example.com.", "NS", "NOERROR example.com. 300 IN NS ns.example.net.", "", nil)
	if p := n.Problems(); len(p) > 0 {
		t.Errorf("reading the zone: got problems %v, want none", p)
	}
}

func TestLongChainsAreFlattenedInParts(t *testing.T) {
	t.Parallel()
	labels := map[string]string{"n0": oneA("192.0.2.1")}
	for i := range 12 {
		labels[fmt.Sprintf("n%d", i+1)] = fmt.Sprintf(`{"cname":{"ttl":100,"host":"n%d.example.com."}}`, i)
	}
	b := plainBuilder(Redins)
	z := b.build(rawOf("example.com.", `{"cname_flattening":true}`, labels))
	b.flatten()
	to := zone.NewResponder()
	if err := to.Replace(z); err != nil {
		t.Fatal(err)
	}
	n := &node{zones: to}
	n.flat(t, "n10.example.com.", "A", "NOERROR n10.example.com. 300 IN A 192.0.2.1", "", nil)
	n.flat(t, "n12.example.com.", "A", "NOERROR n12.example.com. 100 IN CNAME n11.example.com. | n11.example.com. 100 IN CNAME n10.example.com. | n10.example.com. 300 IN A 192.0.2.1", "", nil)
	if len(b.problems) != 2 {
		t.Errorf("flattening long chains: got problems %v, want two", b.problems)
	}
}

func TestFlattenedRecordsAreBounded(t *testing.T) {
	t.Parallel()
	labels := map[string]string{"big": `{"txt":{"records":[{"text":"` + strings.Repeat("x", 50000) + `"}]}}`}
	for i := range 2000 {
		labels[fmt.Sprintf("n%d", i)] = `{"cname":{"host":"big.example.com."}}`
	}
	b := plainBuilder(Redins)
	z := b.build(rawOf("example.com.", `{"cname_flattening":true}`, labels))
	b.flatten()
	flat, left, size := 0, 0, 0
	for _, rr := range z.Records {
		switch rr.(type) {
		case *miekg.TXT:
			flat++
			size += miekg.Len(rr)
		case *miekg.CNAME:
			left++
		}
	}
	if size > maxFlattened+maxSet || flat < 1000 || flat-1+left != 2000 || len(b.problems) != left {
		t.Errorf("%d names flattened to %d bytes, %d not flattened, %d problems", flat, size, left, len(b.problems))
	}
}

func TestACNAMEAddedToAFlattenedZoneIsFlattened(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	putRedins(t, s, "a.example.", `{"cname_flattening":true}`, map[string]string{"www": oneA("192.0.2.1")})
	n, to := startCounted(t, at127(s))
	s.Do(t, "HSET", "redins:zones:a.example.", "b", oneA("192.0.2.2"))
	n.answers(t, "b.a.example.", "A", "NOERROR b.a.example. 300 IN A 192.0.2.2")
	if to.changed.Load() != 1 {
		t.Error("a zone without a CNAME was not changed name by name")
	}
	s.Do(t, "HSET", "redins:zones:a.example.", "c", `{"cname":{"host":"www.a.example."}}`)
	n.answers(t, "c.a.example.", "A", "NOERROR c.a.example. 300 IN A 192.0.2.1")
	s.Do(t, "HSET", "redins:zones:a.example.", "www", oneA("192.0.2.3"))
	n.answers(t, "c.a.example.", "A", "NOERROR c.a.example. 300 IN A 192.0.2.3")
	s.Do(t, "HDEL", "redins:zones:a.example.", "c")
	n.answers(t, "c.a.example.", "A", "NXDOMAIN")
	s.Do(t, "HSET", "redins:zones:a.example.", "www", oneA("192.0.2.4"))
	n.answers(t, "www.a.example.", "A", "NOERROR www.a.example. 300 IN A 192.0.2.4")
	if to.changed.Load() != 2 {
		t.Errorf("changed %d times name by name, want 2", to.changed.Load())
	}
}

func TestAReadZoneHasItsCNAMEs(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	putRedins(t, s, "a.example.", `{"cname_flattening":true}`, map[string]string{"www": `{"cname":{"ttl":5,"host":"b.a.example."}}`, "b": oneA("192.0.2.2")})
	z, problems, err := open(t, s, Redins).Read(t.Context(), "a.example.", 300)
	if err != nil || len(problems) > 0 {
		t.Fatalf("reading a zone from Redis: %v, problems %v", err, problems)
	}
	if !slices.ContainsFunc(z.Records, func(rr miekg.RR) bool { c, ok := rr.(*miekg.CNAME); return ok && c.Target == "b.a.example." }) {
		t.Errorf("the zone lacks the CNAME with target b.a.example.: %v", z.Records)
	}
}

func FuzzFlatten(f *testing.F) {
	f.Add("www", "alias", `{"a":{"records":[{"ip":"192.0.2.1"}],"filter":{"count":"single"}}}`, "alias", "www")
	f.Add("*", "@", `{"cname":{"host":"*.example.com."},"rr":["300 RRSIG A 13 2 300 20300101000000 20200101000000 1 example.com. AAAA"]}`, "WWW", "x.y")
	f.Add(`a\.b`, "b", `{"dname":{"host":"example.net."},"ns":{"records":[{"host":"ns."}]},"cname":{"host":"A.example.com"}}`, "a.b", "*.b")
	f.Fuzz(func(t *testing.T, one, two, text, three, four string) {
		target := func(label string) string {
			text, _ := json.Marshal(map[string]any{"cname": map[string]any{"host": label + ".example.com."}})
			return string(text)
		}
		labels := map[string]string{"@": text, "t": target("@"), two: target(one), three: target(two), four: target(three)}
		maps.Copy(labels, map[string]string{one: text})
		b := plainBuilder(Redins)
		r := rawOf("example.com.", `{"cname_flattening":true}`, labels)
		z := b.build(r)
		plain := zone.NewResponder().Replace(z)
		b.flatten()
		if err := zone.NewResponder().Replace(b.zone); err != nil && plain == nil {
			t.Fatalf("names %q cannot be served after flattening: %v", labels, err)
		}
	})
}
