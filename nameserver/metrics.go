package nameserver

import (
	"time"

	"shuultuur/lib/dns"
	"shuultuur/lib/metric"
)

// Names and labels are those of CoreDNS if it has the metric, so that its
// dashboards work. Others begin with shuultuur_dns_.
var (
	descRequests  = metric.NewDesc("coredns_dns_requests_total", "Queries read.", "server", "zone", "view", "proto", "family", "type")
	descResponses = metric.NewDesc("coredns_dns_responses_total", "Replies sent.", "server", "zone", "view", "rcode", "plugin")
	descDuration  = metric.NewDesc("coredns_dns_request_duration_seconds", "Time from reading a query to its reply.", "server", "zone", "view")
	descIn        = metric.NewDesc("coredns_dns_request_size_bytes", "Size of queries.", "server", "zone", "view", "proto")
	descOut       = metric.NewDesc("coredns_dns_response_size_bytes", "Size of replies.", "server", "zone", "view", "proto")
	descDrops     = metric.NewDesc("shuultuur_dns_drops_total", "Queries, replies and connections that were dropped or limited, by reason.", "reason")
	descQueued    = metric.NewDesc("shuultuur_dns_queued", "Queries waiting for a worker.")
	descBusy      = metric.NewDesc("shuultuur_dns_workers_busy", "Workers that wait for an answer.")
	descTap       = metric.NewDesc("shuultuur_dns_dnstap_messages_total", "Messages for the receiver of dnstap: sent, and dropped because it was away or slow.", "result")
	descConns     = metric.NewDesc("shuultuur_dns_connections", "Open connections.")
)

// Collect implements metric.Collector. Zone and view are always "." and "":
// labels with many values would make many series.
func (s *Server) Collect(ch chan<- metric.Metric) {
	x, server := s.sums(), s.label
	for t := range transports {
		proto := dns.Transport(t).String()
		for f, family := range []string{"1", "2"} {
			for i, n := range x.requests[t][f] {
				if n > 0 {
					ch <- metric.New(descRequests, metric.Count, float64(n), server, ".", "", proto, family, typeName(i))
				}
			}
		}
		sizesOf(ch, descIn, &x.in[t], server, ".", "", proto)
		sizesOf(ch, descOut, &x.out[t], server, ".", "", proto)
	}
	for i, n := range x.rcodes {
		if n > 0 {
			ch <- metric.New(descResponses, metric.Count, float64(n), server, ".", "", rcodeName(i), "")
		}
	}
	buckets, total := []metric.Bucket(nil), uint64(0)
	for i, n := range x.times.buckets {
		if total += n; i < timeBuckets {
			buckets = append(buckets, metric.Bucket{Le: timeBound(i).Seconds(), Count: total})
		}
	}
	ch <- metric.NewHistogram(descDuration, total, time.Duration(x.times.sum).Seconds(), buckets, server, ".", "")
	for i, n := range x.drops {
		ch <- metric.New(descDrops, metric.Count, float64(n), reasonNames[i])
	}
	queued, busy := s.queue.state()
	ch <- metric.New(descQueued, metric.Gauge, float64(queued))
	ch <- metric.New(descBusy, metric.Gauge, float64(busy))
	if s.tap != nil {
		sent, lost := s.tap.Counts()
		ch <- metric.New(descTap, metric.Count, float64(sent), "sent")
		ch <- metric.New(descTap, metric.Count, float64(lost), "dropped")
	}
	ch <- metric.New(descConns, metric.Gauge, float64(s.conns.count()))
}

func sizesOf(ch chan<- metric.Metric, d *metric.Desc, h *histogram[[sizes + 1]uint64], labels ...string) {
	buckets, total := []metric.Bucket(nil), uint64(0)
	for i, n := range h.buckets {
		if total += n; i < sizes {
			buckets = append(buckets, metric.Bucket{Le: float64(sizeBounds[i]), Count: total})
		}
	}
	if total > 0 {
		ch <- metric.NewHistogram(d, total, float64(h.sum), buckets, labels...)
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
