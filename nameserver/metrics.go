package nameserver

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"shuultuur/dns"
)

// Names and labels are those of CoreDNS where it has the metric, so that its
// dashboards work; ours begin with shuultuur_dns_.
var (
	descRequests  = prometheus.NewDesc("coredns_dns_requests_total", "Queries read.", []string{"server", "zone", "view", "proto", "family", "type"}, nil)
	descResponses = prometheus.NewDesc("coredns_dns_responses_total", "Replies sent.", []string{"server", "zone", "view", "rcode", "plugin"}, nil)
	descDuration  = prometheus.NewDesc("coredns_dns_request_duration_seconds", "Time from reading a query to its reply.", []string{"server", "zone", "view"}, nil)
	descIn        = prometheus.NewDesc("coredns_dns_request_size_bytes", "Size of queries.", []string{"server", "zone", "view", "proto"}, nil)
	descOut       = prometheus.NewDesc("coredns_dns_response_size_bytes", "Size of replies.", []string{"server", "zone", "view", "proto"}, nil)
	descDrops     = prometheus.NewDesc("shuultuur_dns_drops_total", "Queries, replies and connections that were dropped or limited, by reason.", []string{"reason"}, nil)
	descQueued    = prometheus.NewDesc("shuultuur_dns_queued", "Queries waiting for a worker.", nil, nil)
	descBusy      = prometheus.NewDesc("shuultuur_dns_workers_busy", "Workers that wait for an answer.", nil, nil)
	descConns     = prometheus.NewDesc("shuultuur_dns_connections", "Open connections.", nil, nil)
)

// Describe implements prometheus.Collector.
func (s *Server) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descRequests, descResponses, descDuration, descIn, descOut, descDrops, descQueued, descBusy, descConns} {
		ch <- d
	}
}

// Collect implements prometheus.Collector. Zone and view are always "." and "":
// labels with many values would make many series.
func (s *Server) Collect(ch chan<- prometheus.Metric) {
	x, server := s.sums(), s.label
	for t := range transports {
		proto := dns.Transport(t).String()
		for f, family := range []string{"1", "2"} {
			for i, n := range x.requests[t][f] {
				if n > 0 {
					ch <- prometheus.MustNewConstMetric(descRequests, prometheus.CounterValue, float64(n), server, ".", "", proto, family, typeName(i))
				}
			}
		}
		sizesOf(ch, descIn, &x.in[t], server, ".", "", proto)
		sizesOf(ch, descOut, &x.out[t], server, ".", "", proto)
	}
	for i, n := range x.rcodes {
		if n > 0 {
			ch <- prometheus.MustNewConstMetric(descResponses, prometheus.CounterValue, float64(n), server, ".", "", rcodeName(i), "")
		}
	}
	buckets, total := map[float64]uint64{}, uint64(0)
	for i, n := range x.times.buckets {
		if total += n; i < timeBuckets {
			buckets[timeBound(i).Seconds()] = total
		}
	}
	ch <- prometheus.MustNewConstHistogram(descDuration, total, time.Duration(x.times.sum).Seconds(), buckets, server, ".", "")
	for i, n := range x.drops {
		ch <- prometheus.MustNewConstMetric(descDrops, prometheus.CounterValue, float64(n), reasonNames[i])
	}
	queued, busy := s.queue.state()
	ch <- prometheus.MustNewConstMetric(descQueued, prometheus.GaugeValue, float64(queued))
	ch <- prometheus.MustNewConstMetric(descBusy, prometheus.GaugeValue, float64(busy))
	ch <- prometheus.MustNewConstMetric(descConns, prometheus.GaugeValue, float64(s.conns.count()))
}

func sizesOf(ch chan<- prometheus.Metric, d *prometheus.Desc, h *histogram[[sizes + 1]uint64], labels ...string) {
	buckets, total := map[float64]uint64{}, uint64(0)
	for i, n := range h.buckets {
		if total += n; i < sizes {
			buckets[float64(sizeBounds[i])] = total
		}
	}
	if total > 0 {
		ch <- prometheus.MustNewConstHistogram(d, total, float64(h.sum), buckets, labels...)
	}
}

// sums adds up all counters.
func (s *Server) sums() *sums {
	var all sums
	for _, t := range s.counters {
		t.mu.Lock()
		all.add(&t.sums)
		t.mu.Unlock()
	}
	return &all
}
