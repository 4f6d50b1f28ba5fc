package resolver

import (
	"context"
	"encoding/binary"
	"testing"
	"time"

	miekg "github.com/miekg/dns"

	"shuultuur/filter"
	"shuultuur/lib/dns"
)

// FuzzAnswer: the resolver refuses what upstreams send, or makes it an answer that another
// reader can read, with no more records than there were. It does the same from the cache, and
// with the policy's changes.
func FuzzAnswer(f *testing.F) {
	for _, records := range [][]string{
		{"a.example. 300 IN A 198.51.100.1"},
		{"a.example. 300 IN CNAME b.example.", "b.example. 60 IN A 10.0.0.1"},
		{"example. 300 IN DNAME games.", "a.example. 0 IN CNAME a.games."},
		{`a.example. 300 IN HTTPS 1 . alpn="h2,h3" ipv4hint=192.0.2.1`},
		{`a.example. 4294967295 IN TXT "x"`},
		nil,
	} {
		m := new(miekg.Msg)
		m.SetQuestion("a.example.", miekg.TypeA)
		m.Response, m.Compress = true, true
		for _, r := range records {
			rr, err := miekg.NewRR(r)
			if err != nil {
				f.Fatal(err)
			}
			m.Answer = append(m.Answer, rr)
		}
		if len(records) == 0 {
			rr, _ := miekg.NewRR("example. 900 IN SOA ns.example. h.example. 1 2 3 4 300")
			m.Ns = append(m.Ns, rr)
		}
		m.SetEdns0(1232, true)
		b, err := m.Pack()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b, miekg.TypeA, false)
		f.Add(b, miekg.TypeHTTPS, true)
		f.Add(b, miekg.TypeAAAA, true)
	}
	j := &judge{verdicts: map[string]filter.Verdict{"games": block(filter.NXDomain)}, names: filter.Names{NoHTTP3: true, NoECH: true}}
	f.Fuzz(func(t *testing.T, msg []byte, qtype uint16, do bool) {
		if len(msg) < headerLen {
			return
		}
		sent := append([]byte(nil), msg...)
		x := newRig(t, Config{DNS64: DNS64{nat64}}, Parts{Addresses: true}, j, nil)
		x.store.upstream = func(context.Context, []byte, uint16, uint16, bool, bool) ([]byte, uint16, error) { return sent, 0, nil }
		m := new(miekg.Msg)
		m.SetQuestion("a.example.", qtype)
		m.SetEdns0(1232, do)
		ask, err := m.Pack()
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			q := &dns.Query{}
			if q.Parse(ask) != dns.OK {
				t.Fatal("Parse refused the test's own query")
			}
			q.At, q.Recursion = x.now, true
			a := &reply{}
			a.Start(q, nil, 60000)
			out := x.r.Answer(q, &a.Reply, &a.T)
			if out == dns.Later {
				a.Start(q, a.Buf, 60000)
				ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
				out = x.r.Wait(ctx, q, &a.Reply, &a.T)
				cancel()
			}
			if out != dns.Answered {
				t.Fatalf("got outcome %d, want Answered", out)
			}
			answers := a.Answers
			b := a.Finish(&dns.Options{Size: 1232, Max: 65000})
			off, err := dns.SkipQuestions(b)
			if err != nil {
				t.Fatal(err)
			}
			for i := range int(binary.BigEndian.Uint16(b[6:])) + int(binary.BigEndian.Uint16(b[8:])) + int(binary.BigEndian.Uint16(b[10:])) {
				r, err := dns.ReadRecord(b, off)
				if err != nil {
					t.Fatalf("record %d of the reply %x: %v", i, b, err)
				}
				off = r.End
			}
			if off != len(b) {
				t.Fatalf("%d surplus bytes after the last record", len(b)-off)
			}
			if n := binary.BigEndian.Uint16(msg[6:]); answers > max(n, 1) {
				t.Fatalf("the answer has %d records, more than the %d of the upstream", answers, n)
			}
		}
	})
}
