package redins

import (
	"fmt"
	"testing"

	"shuultuur/zone"
)

// BenchmarkBuild makes a zone of 10,000 names of JSON, and compiles it.
func BenchmarkBuild(b *testing.B) {
	labels := map[string]string{"@": `{"ns":{"ttl":300,"records":[{"host":"ns1.example.com."}]}}`}
	for i := range 10000 {
		labels[fmt.Sprintf("host%d", i)] = fmt.Sprintf(`{"a":{"ttl":300,"records":[{"ip":"10.0.%d.%d","weight":1}]},"aaaa":{"ttl":300,"records":[{"ip":"2001:db8::%x"}]}}`, i/256, i%256, i)
	}
	r := rawOf("example.com.", redinsConfig, labels)
	to := zone.NewResponder()
	b.ReportAllocs()
	for b.Loop() {
		r.sum()
		if err := to.Replace(plainBuilder(Redins).build(r)); err != nil {
			b.Fatal(err)
		}
	}
	if to.Zone("example.com.", from(nowhere).Client.Addr()) == nil {
		b.Fatal("the built zone is not served")
	}
}
