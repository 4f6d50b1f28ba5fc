package icap

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// What a Server counts.
const (
	connections = iota
	connectionsFull
	clientsRefused
	options
	reqmods
	respmods
	unmodified
	partial
	modified
	answered
	malformed
	matched
	pendingFull
	panics
	counted
)

var descs = [counted]*prometheus.Desc{
	connections:     desc("connections_total", "ICAP connections accepted."),
	connectionsFull: desc("connections_full_total", "ICAP connections refused because there were too many."),
	clientsRefused:  desc("clients_refused_total", "ICAP connections refused because of their address."),
	options:         desc("options_total", "OPTIONS requests."),
	reqmods:         desc("reqmod_total", "REQMOD requests."),
	respmods:        desc("respmod_total", "RESPMOD requests."),
	unmodified:      desc("unmodified_total", "Messages answered with 204: they pass as they are."),
	partial:         desc("partial_total", "Messages answered with 206: a changed head, the body as it is."),
	modified:        desc("modified_total", "Messages answered with 200: sent back, with a changed head or as they are."),
	answered:        desc("answered_total", "Messages that got an answer of ours instead, such as a block page."),
	malformed:       desc("malformed_total", "Messages refused as malformed."),
	matched:         desc("matched_total", "Responses whose request was judged before."),
	pendingFull:     desc("pending_full_total", "Requests put on record without waiting for their response because too many waited."),
	panics:          desc("panics_total", "Panics caught while serving an ICAP connection."),
}

var (
	openDesc    = desc("connections", "ICAP connections open.")
	pendingDesc = desc("pending", "Requests that wait for their response.")
)

func desc(name, help string) *prometheus.Desc {
	return prometheus.NewDesc("shuultuur_icap_"+name, help, nil, nil)
}

type counters [counted]atomic.Int64

func (c *counters) add(what int) { c[what].Add(1) }

// Describe implements [prometheus.Collector].
func (s *Server) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range descs {
		ch <- d
	}
	ch <- openDesc
	ch <- pendingDesc
}

// Collect implements [prometheus.Collector].
func (s *Server) Collect(ch chan<- prometheus.Metric) {
	for n := range s.counters {
		ch <- prometheus.MustNewConstMetric(descs[n], prometheus.CounterValue, float64(s.counters[n].Load()))
	}
	ch <- prometheus.MustNewConstMetric(openDesc, prometheus.GaugeValue, float64(s.open.Load()))
	ch <- prometheus.MustNewConstMetric(pendingDesc, prometheus.GaugeValue, float64(s.pending.len()))
}
