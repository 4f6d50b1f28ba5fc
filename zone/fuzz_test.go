package zone

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	miekg "github.com/miekg/dns"

	"shuultuur/lib/dns"
)

// FuzzZoneFile reads any text as a zone. A zone that compiles answers for each of its names
// within bounded time and without a panic.
func FuzzZoneFile(f *testing.F) {
	f.Add(tiny)
	f.Add(tiny + "* CNAME a\na.b.c DNAME @\nsub NS ns.sub\nns.sub A 192.0.2.1\n")
	f.Add(tiny + "$GENERATE 1-100 h$ A 192.0.2.$\n$ORIGIN a.x.test.\n\\000.b TXT ( \"a\"\n b )\n")
	f.Add(tiny + "$INCLUDE /dev/zero\n")
	f.Add("@ 5 IN SOA . . 1 2 3 4 5\n@ TYPE65280 \\# 0\n@ NSEC3PARAM 1 0 0 -\n0P9MHAVEQVM6T7VBL5LOP2U3T2RP3TOM NSEC3 1 1 0 - 2T7B4G4VSA5SMI47K61MV5BV1A22BOJR A\n")
	f.Fuzz(func(t *testing.T, text string) {
		if strings.Contains(text, "GENERATE") && len(text) > 200 {
			return // it generates records, as it should
		}
		started := time.Now()
		one, err := Read(strings.NewReader(text), "x.test.", "")
		if err != nil {
			return
		}
		Check(one)
		z := NewResponder()
		if z.Replace(one) != nil {
			return
		}
		for _, rr := range one.Records[:min(len(one.Records), 50)] {
			for _, prefix := range []string{"", "a."} {
				name := prefix + rr.Header().Name
				if _, ok := miekg.IsDomainName(name); !ok {
					continue
				}
				m := question(name, rr.Header().Rrtype)
				m.SetEdns0(1232, true)
				if _, err := m.Pack(); err == nil {
					ask(t, z, m, 1232)
				}
			}
		}
		if spent := time.Since(started); spent > 20*time.Second {
			t.Errorf("%v for a zone of %d bytes, want at most 20 s", spent, len(text))
		}
	})
}

// FuzzAnswer sends any message to a responder with unusual zones. It answers a readable query
// within its limit, and the answer can be read.
func FuzzAnswer(f *testing.F) {
	rnd := rand.New(rand.NewPCG(7, 7))
	origins := []string{"one.test.", "two.test.", "sub.one.test."}
	z := NewResponder()
	for _, o := range origins {
		if err := z.Replace(parse(f, o, wildZone(rnd, o, origins, 300))); err != nil {
			f.Fatal(err)
		}
	}
	for _, name := range []string{"a.one.test.", "x\\.y.b.two.test.", "*.sub.one.test.", "."} {
		msg, err := question(name, miekg.TypeA).Pack()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(msg, uint16(512))
		f.Add(msg, uint16(40))
	}
	f.Fuzz(func(t *testing.T, msg []byte, limit uint16) {
		var q dns.Query
		if q.Parse(msg) != dns.OK {
			return
		}
		var r dns.Reply
		r.Start(&q, nil, max(int(limit), q.End))
		if z.Answer(&q, &r, nil) != dns.Answered {
			return
		}
		if len(r.Buf) > r.Limit {
			t.Fatalf("the answer has %d bytes, its limit is %d", len(r.Buf), r.Limit)
		}
		var m miekg.Msg
		opts := dns.Options{Size: 1232, Max: 65535}
		if err := m.Unpack(r.Finish(&opts)); err != nil {
			t.Fatal(err)
		}
	})
}
