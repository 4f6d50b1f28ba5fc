package forward

import (
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"shuultuur/lib/dns"
	"shuultuur/lib/metric"
)

// proxyName is the label of that name, as CoreDNS's plugin forward sets it.
const proxyName = "forward"

// stats are the counts of one upstream.
type stats struct {
	requests, errors, timeouts atomic.Int64
	full                       atomic.Int64 // refused: too many in progress
	forged                     atomic.Int64 // datagrams that answer no query
	malformed                  atomic.Int64
	truncated                  atomic.Int64 // repeated over TCP
	caseless                   atomic.Int64 // answers with different case, repeated over TCP
	plain                      atomic.Int64 // repeated without EDNS
	dials, reused              atomic.Int64
	reconnects                 atomic.Int64 // connections given up with queries waiting
	probes, probeFailures      atomic.Int64

	seconds *metric.HistogramVec                 // by proxy_name, to, rcode
	timers  [25]atomic.Pointer[metric.Histogram] // histograms of seconds, by rcode
	to      string
}

// names of the rcodes that a server may send; RFC 6895.
var rcodes = [...]string{"NOERROR", "FORMERR", "SERVFAIL", "NXDOMAIN", "NOTIMP", "REFUSED", "YXDOMAIN", "YXRRSET", "NXRRSET", "NOTAUTH", "NOTZONE"}

func rcodeName(r uint16) string {
	switch {
	case int(r) < len(rcodes):
		return rcodes[r]
	case r == dns.RcodeBadVers:
		return "BADVERS"
	}
	return strconv.Itoa(int(r))
}

// observe counts an answer.
func (s *stats) observe(rcode uint16, took time.Duration) {
	i := min(rcode, uint16(len(s.timers)-1))
	o := s.timers[i].Load()
	if o == nil {
		h := s.seconds.With(proxyName, s.to, rcodeName(i))
		o = &h
		s.timers[i].Store(o)
	}
	(*o).Observe(took.Seconds())
}

// metrics are the counts of an upstream; those that CoreDNS has bear its
// names.
var metrics = []struct {
	name, help string
	value      func(s *stats) *atomic.Int64
}{
	{proxyMetric + "healthcheck_failures_total", "Probes of an upstream that failed.", func(s *stats) *atomic.Int64 { return &s.probeFailures }},
	{proxyMetric + "conn_cache_hits_total", "Queries over a reused connection.", func(s *stats) *atomic.Int64 { return &s.reused }},
	{proxyMetric + "conn_cache_misses_total", "Connections and sockets opened.", func(s *stats) *atomic.Int64 { return &s.dials }},
	{ourMetric + "requests_total", "Queries sent to an upstream.", func(s *stats) *atomic.Int64 { return &s.requests }},
	{ourMetric + "errors_total", "Queries that an upstream did not answer.", func(s *stats) *atomic.Int64 { return &s.errors }},
	{ourMetric + "timeouts_total", "Queries that an upstream did not answer in time.", func(s *stats) *atomic.Int64 { return &s.timeouts }},
	{ourMetric + "full_total", "Queries not sent because too many waited for the upstream.", func(s *stats) *atomic.Int64 { return &s.full }},
	{ourMetric + "forged_total", "Messages that answer no query: forged, or very late.", func(s *stats) *atomic.Int64 { return &s.forged }},
	{ourMetric + "malformed_total", "Answers that could not be read.", func(s *stats) *atomic.Int64 { return &s.malformed }},
	{ourMetric + "truncated_total", "Queries repeated over TCP because the answer was truncated.", func(s *stats) *atomic.Int64 { return &s.truncated }},
	{ourMetric + "case_total", "Queries repeated over TCP because the reply had the question in other case.", func(s *stats) *atomic.Int64 { return &s.caseless }},
	{ourMetric + "no_edns_total", "Queries repeated without EDNS.", func(s *stats) *atomic.Int64 { return &s.plain }},
	{ourMetric + "connections_dropped_total", "Connections given up because nothing arrived any more, or because they ended, while a query waited.", func(s *stats) *atomic.Int64 { return &s.reconnects }},
	{ourMetric + "probes_total", "Probes of an upstream that is down.", func(s *stats) *atomic.Int64 { return &s.probes }},
}

const (
	proxyMetric = "coredns_proxy_"
	ourMetric   = "shuultuur_dns_upstream_"
)

// Collect is for metric.Collector.
func (f *Forwarder) Collect(to chan<- metric.Metric) {
	f.seconds.Collect(to)
	send := func(name, help string, kind metric.Kind, value float64, u *upstream) {
		var keys, values []string
		switch {
		case u != nil && strings.HasPrefix(name, proxyMetric):
			keys, values = []string{"proxy_name", "to"}, []string{proxyName, u.to}
		case u != nil:
			keys, values = []string{"to"}, []string{u.to}
		}
		to <- metric.New(metric.NewDesc(name, help, keys...), kind, value, values...)
	}
	count := metric.Count
	send("coredns_forward_healthcheck_broken_total", "Queries for which every upstream was down.", count, float64(f.broken.Load()), nil)
	send("coredns_forward_max_concurrent_rejects_total", "Queries refused because too many waited for each upstream.", count, float64(f.refused.Load()), nil)
	f.collectValidation(to)
	for _, u := range f.upstreams {
		for _, m := range metrics {
			send(m.name, m.help, count, float64(m.value(&u.stats).Load()), u)
		}
		up := 1.0
		if down, _ := u.health(); down {
			up = 0
		}
		send(ourMetric+"up", "1 while an upstream is used, 0 while it is only probed.", metric.Gauge, up, u)
		send(ourMetric+"rtt_seconds", "Smoothed response time.", metric.Gauge, u.speed(), u)
	}
}

func (f *Forwarder) collectValidation(to chan<- metric.Metric) {
	if f.validator == nil {
		return
	}
	const prefix = "shuultuur_dns_"
	send := func(name, help string, n *atomic.Int64, status ...string) {
		var keys []string
		if len(status) > 0 {
			keys = []string{"status"}
		}
		to <- metric.New(metric.NewDesc(prefix+name, help, keys...), metric.Count, float64(n.Load()), status...)
	}
	c := &f.validator.Counts
	const validated = "Answers that were validated."
	send("validated_total", validated, &c.Secure, "secure")
	send("validated_total", validated, &c.Insecure, "insecure")
	send("validated_total", validated, &c.Bogus, "bogus")
	send("validation_questions_total", "Queries to upstreams for keys and delegations.", &c.Questions)
	send("validation_limited_total", "Answers that would take too much work to validate.", &c.Limited)
	send("validation_iterations_total", "Denials that count as unsigned because of their NSEC3 iterations.", &c.Iterations)
}

// A Status is the state of an upstream.
type Status struct {
	To                         string
	Up                         bool    // false: it gets only probes
	Seconds                    float64 // smoothed response time
	Requests, Errors, Timeouts int64
	Reconnections              int64 // connections given up while a query waited
}

// Upstreams returns the states of all upstreams, in the order of the settings.
func (f *Forwarder) Upstreams() (all []Status) {
	for _, u := range f.upstreams {
		down, _ := u.health()
		all = append(all, Status{u.to, !down, u.speed(), u.requests.Load(), u.errors.Load(), u.timeouts.Load(), u.reconnects.Load()})
	}
	return all
}
