package gateway

import (
	"github.com/prometheus/client_golang/prometheus"

	"shuultuur/resolver"
)

// A nameWatcher reads what cache and upstreams of the name server count. The
// names and labels are CoreDNS's where it has one.
type nameWatcher struct {
	store  *resolver.Store
	server string
}

// A nameReading is one number of the store.
type nameReading struct {
	name, help string
	kind       prometheus.ValueType
	types      string // label type, "" for none
	value      func(*resolver.Stats) int64
}

func nameReadings() []nameReading {
	const counter, gauge = prometheus.CounterValue, prometheus.GaugeValue
	return []nameReading{
		{"coredns_cache_hits_total", "Answers out of the cache.", counter, "success", func(s *resolver.Stats) int64 { return s.Hits - s.Denials }},
		{"coredns_cache_hits_total", "Answers out of the cache.", counter, "denial", func(s *resolver.Stats) int64 { return s.Denials }},
		{"coredns_cache_misses_total", "Questions the cache has no answer to.", counter, "", func(s *resolver.Stats) int64 { return s.Misses }},
		{"coredns_cache_entries", "Answers in the cache.", gauge, "", func(s *resolver.Stats) int64 { return int64(s.Entries) }},
		{"coredns_cache_evictions_total", "Answers that had to go for others.", counter, "", func(s *resolver.Stats) int64 { return s.Evicted }},
		{"coredns_cache_prefetch_total", "Answers fetched again before their time was over.", counter, "", func(s *resolver.Stats) int64 { return s.Prefetched }},
		{"coredns_cache_served_stale_total", "Answers given beyond their time.", counter, "", func(s *resolver.Stats) int64 { return s.Stale }},
		{"shuultuur_dns_cache_bytes", "Memory of the cache.", gauge, "", func(s *resolver.Stats) int64 { return s.Bytes }},
		{"shuultuur_dns_upstream_failed_total", "Questions that upstreams gave no answer to.", counter, "", func(s *resolver.Stats) int64 { return s.Failed }},
		{"shuultuur_dns_upstream_refused_total", "Questions not asked because too many were on their way.", counter, "", func(s *resolver.Stats) int64 { return s.Refused }},
		{"shuultuur_dns_upstream_waiting", "Questions on their way to upstreams.", gauge, "", func(s *resolver.Stats) int64 { return int64(s.Flights) }},
	}
}

func (r *nameReading) desc() *prometheus.Desc {
	labels := []string{"server", "zones", "view"}
	if r.types != "" {
		labels = append(labels, "type")
	}
	return prometheus.NewDesc(r.name, r.help, labels, nil)
}

// Describe implements prometheus.Collector: what upstreams count depends on
// the settings.
func (w *nameWatcher) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (w *nameWatcher) Collect(ch chan<- prometheus.Metric) {
	s := w.store.Stats()
	for _, r := range nameReadings() {
		labels := []string{w.server, ".", ""}
		if r.types != "" {
			labels = append(labels, r.types)
		}
		ch <- prometheus.MustNewConstMetric(r.desc(), r.kind, float64(r.value(&s)), labels...)
	}
}

// label is how CoreDNS names a server in metrics.
func (d *DNS) label() string {
	if len(d.Server.Listen) == 0 {
		return "dns://"
	}
	return "dns://" + d.Server.Listen[0]
}
