package resolver

import "shuultuur/lib/metric"

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
		{"coredns_cache_hits_total", "Answers from the cache.", counter, "success", func(s *Stats) int64 { return s.Hits - s.Denials }},
		{"coredns_cache_hits_total", "Answers from the cache.", counter, "denial", func(s *Stats) int64 { return s.Denials }},
		{"coredns_cache_misses_total", "Queries that the cache could not answer.", counter, "", func(s *Stats) int64 { return s.Misses }},
		{"coredns_cache_entries", "Answers in the cache.", gauge, "", func(s *Stats) int64 { return int64(s.Entries) }},
		{"coredns_cache_evictions_total", "Answers evicted from the cache.", counter, "", func(s *Stats) int64 { return s.Evicted }},
		{"coredns_cache_prefetch_total", "Answers refreshed before they expired.", counter, "", func(s *Stats) int64 { return s.Prefetched }},
		{"coredns_cache_served_stale_total", "Expired answers that were given.", counter, "", func(s *Stats) int64 { return s.Stale }},
		{"shuultuur_dns_cache_bytes", "Memory of the cache.", gauge, "", func(s *Stats) int64 { return s.Bytes }},
		{"shuultuur_dns_upstream_failed_total", "Queries that no upstream answered.", counter, "", func(s *Stats) int64 { return s.Failed }},
		{"shuultuur_dns_upstream_refused_total", "Queries not sent because too many were in flight.", counter, "", func(s *Stats) int64 { return s.Refused }},
		{"shuultuur_dns_upstream_waiting", "Queries in flight to upstreams.", gauge, "", func(s *Stats) int64 { return int64(s.Flights) }},
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
