package resolver

import "shuultuur/metric"

// A reading is a metric of a store, under CoreDNS's name if there is one.
type reading struct {
	name, help string
	kind       metric.Kind
	types      string // label type, "" for none
	value      func(*Stats) int64
}

func readings() []reading {
	const counter, gauge = metric.Count, metric.Gauge
	return []reading{
		{"coredns_cache_hits_total", "Answers out of the cache.", counter, "success", func(s *Stats) int64 { return s.Hits - s.Denials }},
		{"coredns_cache_hits_total", "Answers out of the cache.", counter, "denial", func(s *Stats) int64 { return s.Denials }},
		{"coredns_cache_misses_total", "Questions the cache has no answer to.", counter, "", func(s *Stats) int64 { return s.Misses }},
		{"coredns_cache_entries", "Answers in the cache.", gauge, "", func(s *Stats) int64 { return int64(s.Entries) }},
		{"coredns_cache_evictions_total", "Answers that had to go for others.", counter, "", func(s *Stats) int64 { return s.Evicted }},
		{"coredns_cache_prefetch_total", "Answers fetched again before their time was over.", counter, "", func(s *Stats) int64 { return s.Prefetched }},
		{"coredns_cache_served_stale_total", "Answers given beyond their time.", counter, "", func(s *Stats) int64 { return s.Stale }},
		{"shuultuur_dns_cache_bytes", "Memory of the cache.", gauge, "", func(s *Stats) int64 { return s.Bytes }},
		{"shuultuur_dns_upstream_failed_total", "Questions that upstreams gave no answer to.", counter, "", func(s *Stats) int64 { return s.Failed }},
		{"shuultuur_dns_upstream_refused_total", "Questions not asked because too many were on their way.", counter, "", func(s *Stats) int64 { return s.Refused }},
		{"shuultuur_dns_upstream_waiting", "Questions on their way to upstreams.", gauge, "", func(s *Stats) int64 { return int64(s.Flights) }},
	}
}

func (r *reading) desc() *metric.Desc {
	labels := []string{"server", "zones", "view"}
	if r.types != "" {
		labels = append(labels, "type")
	}
	return metric.NewDesc(r.name, r.help, labels...)
}

// Collect implements [metric.Collector].
func (s *Store) Collect(ch chan<- metric.Metric) {
	stats := s.Stats()
	for _, r := range readings() {
		labels := []string{s.label, ".", ""}
		if r.types != "" {
			labels = append(labels, r.types)
		}
		ch <- metric.New(r.desc(), r.kind, float64(r.value(&stats)), labels...)
	}
}
