package sign_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"shuultuur/zone"
	"shuultuur/zone/sign"
)

func large(b *testing.B, n int) *zone.Zone {
	var s strings.Builder
	s.WriteString("$TTL 300\n@ SOA ns1 hostmaster 1 3600 600 86400 300\n@ NS ns1\nns1 A 192.0.2.1\n")
	for i := range n {
		fmt.Fprintf(&s, "host%d A 198.51.%d.%d\n", i, i>>8&255, i&255)
	}
	return parseZone(b, "example.com.", s.String())
}

// BenchmarkZone signs a zone of 10,000 names: for the first time, and again
// with one name more.
func BenchmarkZone(b *testing.B) {
	for _, algorithm := range sign.Algorithms() {
		z, more := large(b, 10_000), large(b, 10_001)
		b.Run(algorithm+"/first", func(b *testing.B) {
			for b.Loop() {
				s := newSigner(b, sign.Config{}, newKeys(b, "example.com.", algorithm))
				if _, err := s.Zone(b.Context(), z, time.Now()); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(algorithm+"/again", func(b *testing.B) {
			s := newSigner(b, sign.Config{}, newKeys(b, "example.com.", algorithm))
			if _, err := s.Zone(b.Context(), z, time.Now()); err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				if _, err := s.Zone(b.Context(), more, time.Now()); err != nil {
					b.Fatal(err)
				}
			}
			var m runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&m)
			b.ReportMetric(float64(m.HeapAlloc)/(1<<20), "MB")
			runtime.KeepAlive(s)
		})
	}
}
