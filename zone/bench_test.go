package zone

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"strings"
	"testing"

	miekg "github.com/miekg/dns"

	"shuultuur/lib/dns"
)

// mix100k is 100,000 names in 10 zones and questions about them: 80 % A, 10 %
// NXDOMAIN, 6 % AAAA, 2 % wildcard, 2 % MX.
func mix100k(tb testing.TB) (*Responder, [][]byte) {
	tb.Helper()
	z := NewResponder()
	rnd := rand.New(rand.NewPCG(1, 2))
	for i := range 10 {
		var b strings.Builder
		fmt.Fprintf(&b, "$TTL 300\n@ SOA ns1 hostmaster 1 3600 600 86400 300\n@ NS ns1\n@ NS ns2\nns1 A 192.0.2.1\nns2 A 192.0.2.2\n*.wild A 192.0.2.3\n@ MX 10 mail\nmail A 192.0.2.4\n")
		for j := range 10000 {
			fmt.Fprintf(&b, "h%05d A 192.0.2.%d\n", j, j%250)
			if j%10 == 0 {
				fmt.Fprintf(&b, "h%05d AAAA 2001:db8::%x\nh%05d MX 10 mail\n", j, j, j)
			}
		}
		one, err := Read(strings.NewReader(b.String()), fmt.Sprintf("zone%d.example.", i), "")
		if err != nil {
			tb.Fatal(err)
		}
		if err := z.Replace(one); err != nil {
			tb.Fatal(err)
		}
	}
	var msgs [][]byte
	for range 10000 {
		j, zone := rnd.IntN(10000), fmt.Sprintf("zone%d.example.", rnd.IntN(10))
		name, typ := fmt.Sprintf("h%05d.%s", j, zone), miekg.TypeA
		switch p := rnd.IntN(100); {
		case p < 80:
		case p < 90:
			name = fmt.Sprintf("n%05d.%s", j, zone)
		case p < 96:
			name, typ = fmt.Sprintf("h%05d.%s", j/10*10, zone), miekg.TypeAAAA
		case p < 98:
			name = fmt.Sprintf("w%05d.wild.%s", j, zone)
		default:
			name, typ = fmt.Sprintf("h%05d.%s", j/10*10, zone), miekg.TypeMX
		}
		msg, err := question(name, typ).Pack()
		if err != nil {
			tb.Fatal(err)
		}
		msgs = append(msgs, msg)
	}
	return z, msgs
}

func BenchmarkAnswer(b *testing.B) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	z, msgs := mix100k(b)
	runtime.GC()
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/1e6, "MB")
	queries := make([]dns.Query, len(msgs))
	for i := range queries {
		queries[i].Client = netip.MustParseAddrPort("192.0.2.200:4000")
		queries[i].Parse(msgs[i])
	}
	var r dns.Reply
	buf := make([]byte, 0, 4096)
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		q := &queries[i%len(queries)]
		r.Start(q, buf, 1232)
		if z.Answer(q, &r, nil) != dns.Answered {
			b.Fatal("the responder did not answer the query")
		}
	}
}

// BenchmarkWhole has reading the query and finishing the reply in it.
func BenchmarkWhole(b *testing.B) {
	z, msgs := mix100k(b)
	var r dns.Reply
	var q dns.Query
	q.Client = netip.MustParseAddrPort("192.0.2.200:4000")
	buf := make([]byte, 0, 4096)
	opts := &dns.Options{Size: 1232, Max: 1232}
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		q.Parse(msgs[i%len(msgs)])
		r.Start(&q, buf, 1232)
		if z.Answer(&q, &r, nil) != dns.Answered {
			b.Fatal("the responder did not answer the query")
		}
		r.Finish(opts)
	}
}

func BenchmarkReplace(b *testing.B) {
	var text strings.Builder
	fmt.Fprintf(&text, "$TTL 300\n@ SOA ns1 hostmaster 1 3600 600 86400 300\n@ NS ns1\nns1 A 192.0.2.1\n")
	for j := range 10000 {
		fmt.Fprintf(&text, "h%05d A 192.0.2.%d\n", j, j%250)
	}
	b.Run("read", func(b *testing.B) {
		for range b.N {
			if _, err := Read(strings.NewReader(text.String()), "example.", ""); err != nil {
				b.Fatal(err)
			}
		}
	})
	one, err := Read(strings.NewReader(text.String()), "example.", "")
	if err != nil {
		b.Fatal(err)
	}
	b.Run("compile", func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			if _, err := compile(one, 1); err != nil {
				b.Fatal(err)
			}
		}
	})
}
