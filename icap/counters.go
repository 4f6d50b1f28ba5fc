package icap

import (
	"sync/atomic"

	"shuultuur/lib/metric"
)

// The counters of a Server.
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

var descs = [counted]*metric.Desc{
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

func desc(name, help string) *metric.Desc {
	return metric.NewDesc("shuultuur_icap_"+name, help)
}

type counters [counted]atomic.Int64

func (c *counters) add(what int) { c[what].Add(1) }

// Collect implements [metric.Collector].
func (s *Server) Collect(ch chan<- metric.Metric) {
	for n := range s.counters {
		ch <- metric.New(descs[n], metric.Count, float64(s.counters[n].Load()))
	}
	ch <- metric.New(openDesc, metric.Gauge, float64(s.open.Load()))
	ch <- metric.New(pendingDesc, metric.Gauge, float64(s.pending.len()))
}
