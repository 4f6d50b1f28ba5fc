package gateway

import (
	"net/http"
	"regexp"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"shuultuur/event"
	"shuultuur/filter"
	"shuultuur/proxy"
)

// metrics are what /metrics shows. Labels are words of the settings (policy,
// rule, category), never hosts or evidence: their number is bounded by the
// settings file.
type metrics struct {
	registry     *prometheus.Registry
	transactions *prometheus.CounterVec
	seconds      *prometheus.HistogramVec
	reloads      *prometheus.CounterVec
	fetches      *prometheus.CounterVec
}

func newMetrics() *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		transactions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "shuultuur_transactions_total",
			Help: "Transactions that are over, by what was decided and why.",
		}, []string{"proto", "action", "policy", "rule", "category"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "shuultuur_transaction_seconds",
			Help:    "From a request's first byte to its answer's last.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 10, 60},
		}, []string{"proto"}),
		reloads: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "shuultuur_reloads_total",
			Help: "Attempts to take new settings or lists into use.",
		}, []string{"result"}),
		fetches: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "shuultuur_list_fetches_total",
			Help: "Looks for a newer version of a list that is fetched: taken, unchanged, or refused because it could not be had or is no good.",
		}, []string{"list", "result"}),
	}
	m.registry.MustRegister(m.transactions, m.seconds, m.reloads, m.fetches,
		// What "shuultuur profile -live" shows beside the usual.
		collectors.NewGoCollector(collectors.WithGoCollectorRuntimeMetrics(collectors.GoRuntimeMetricsRule{
			Matcher: regexp.MustCompile(`^(/sched/(latencies|gomaxprocs|goroutines|pauses/total/gc).*|/gc/(heap/(live|goal)|cycles/total):.*|/cpu/classes/(gc/)?total:.*)$`)})),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

func (m *metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

// count adds a transaction that is over.
func (m *metrics) count(t *filter.Transaction) {
	proto, r := t.Proto.String(), &t.Verdict.Reason
	m.transactions.WithLabelValues(proto, t.Verdict.Action.String(), r.Policy, r.Rule, r.Finding.Category).Inc()
	m.seconds.WithLabelValues(proto).Observe(t.Duration.Seconds())
}

// fetched counts a look for a newer version of a list.
func (m *metrics) fetched(list string, taken bool, err error) {
	result := "unchanged"
	switch {
	case err != nil:
		result = "refused"
	case taken:
		result = "taken"
	}
	m.fetches.WithLabelValues(list, result).Inc()
}

// A reading is one number that is read when somebody asks.
type reading struct {
	name, help string
	kind       prometheus.ValueType
	value      func(*proxy.Stats) int64
}

var proxyReadings = []reading{
	{"connections_total", "Client connections accepted.", prometheus.CounterValue, func(s *proxy.Stats) int64 { return s.Connections }},
	{"connections", "Client connections open.", prometheus.GaugeValue, func(s *proxy.Stats) int64 { return s.ConnectionsOpen }},
	{"connections_full_total", "Client connections refused because the listener had too many.", prometheus.CounterValue, func(s *proxy.Stats) int64 { return s.ConnectionsFull }},
	{"connections_client_full_total", "Client connections refused because one client had too many.", prometheus.CounterValue, func(s *proxy.Stats) int64 { return s.ConnectionsClient }},
	{"tls_refused_total", "Connections closed because they spoke TLS and no certificate is set up.", prometheus.CounterValue, func(s *proxy.Stats) int64 { return s.NoTLS }},
	{"proxy_protocol_refused_total", "Connections closed because of a bad PROXY protocol header.", prometheus.CounterValue, func(s *proxy.Stats) int64 { return s.BadPROXY }},
	{"requests_total", "Requests read.", prometheus.CounterValue, func(s *proxy.Stats) int64 { return s.Requests }},
	{"requests_turns", "Requests that may be at work at once: fewer when the processors do not keep up.", prometheus.GaugeValue, func(s *proxy.Stats) int64 { return s.Turns }},
	{"requests_left_total", "Requests not worked on because their client had gone before it was their turn.", prometheus.CounterValue, func(s *proxy.Stats) int64 { return s.Left }},
	{"requests_queued", "Requests waiting for their turn.", prometheus.GaugeValue, func(s *proxy.Stats) int64 { return s.Queued }},
	{"overload_total", "Requests and connections answered with 503 by us.", prometheus.CounterValue, func(s *proxy.Stats) int64 { return s.Overload }},
	{"malformed_total", "Messages refused as malformed, request smuggling among them.", prometheus.CounterValue, func(s *proxy.Stats) int64 { return s.Malformed }},
	{"loops_total", "Requests refused because they came through us before.", prometheus.CounterValue, func(s *proxy.Stats) int64 { return s.Loops }},
	{"private_refused_total", "Requests refused because their address may not be reached.", prometheus.CounterValue, func(s *proxy.Stats) int64 { return s.Private }},
	{"tunnels_total", "Tunnels opened.", prometheus.CounterValue, func(s *proxy.Stats) int64 { return s.Tunnels }},
	{"tunnels", "Tunnels open.", prometheus.GaugeValue, func(s *proxy.Stats) int64 { return s.TunnelsOpen }},
	{"upgrades_total", "Connections upgraded (WebSocket).", prometheus.CounterValue, func(s *proxy.Stats) int64 { return s.Upgrades }},
	{"bodies_judged_total", "Judgements of bodies.", prometheus.CounterValue, func(s *proxy.Stats) int64 { return s.Judged }},
	{"bodies_abandoned_total", "Bodies not judged because their client had gone.", prometheus.CounterValue, func(s *proxy.Stats) int64 { return s.Abandoned }},
	{"bodies_cut_total", "Bodies that tipped when a part was out.", prometheus.CounterValue, func(s *proxy.Stats) int64 { return s.Cut }},
	{"bodies_partial_total", "Bodies too large to hold, judged piece by piece.", prometheus.CounterValue, func(s *proxy.Stats) int64 { return s.Partial }},
	{"held_bytes", "Bytes held for judgement.", prometheus.GaugeValue, func(s *proxy.Stats) int64 { return s.Held }},
	{"held_waiting", "Bodies that wait for room to be held in.", prometheus.GaugeValue, func(s *proxy.Stats) int64 { return s.HeldWaiting }},
	{"judging", "Bodies being judged.", prometheus.GaugeValue, func(s *proxy.Stats) int64 { return s.Judging }},
	{"judge_waiting", "Bodies that wait to be judged.", prometheus.GaugeValue, func(s *proxy.Stats) int64 { return s.JudgeWaiting }},
	{"upstream_reused_total", "Requests sent over a kept connection.", prometheus.CounterValue, func(s *proxy.Stats) int64 { return s.UpstreamReused }},
	{"upstream_connections_total", "Upstream connections made.", prometheus.CounterValue, func(s *proxy.Stats) int64 { return s.UpstreamNew }},
	{"upstream_idle", "Upstream connections kept for the next request.", prometheus.GaugeValue, func(s *proxy.Stats) int64 { return s.UpstreamIdle }},
	{"upstream_retried_total", "Requests repeated because a kept connection was dead.", prometheus.CounterValue, func(s *proxy.Stats) int64 { return s.UpstreamRetried }},
	{"upstream_dial_failed_total", "Upstream connections that could not be made.", prometheus.CounterValue, func(s *proxy.Stats) int64 { return s.DialFailed }},
	{"upstream_failed_total", "Requests without a valid answer from upstream.", prometheus.CounterValue, func(s *proxy.Stats) int64 { return s.UpstreamFailed }},
	{"tls_decrypted_total", "TLS connections that were looked into.", prometheus.CounterValue, func(s *proxy.Stats) int64 { return s.Decrypted }},
	{"tls_certificate_refused_total", "TLS handshakes that a client broke off at our certificate.", prometheus.CounterValue, func(s *proxy.Stats) int64 { return s.CertRefused }},
	{"tls_origin_faults_total", "TLS connections to origins whose certificate has a fault.", prometheus.CounterValue, func(s *proxy.Stats) int64 { return s.CertFaults }},
	{"tls_ech_total", "TLS hellos that carried encrypted_client_hello, true or noise.", prometheus.CounterValue, func(s *proxy.Stats) int64 { return s.ECH }},
	{"transparent_connections_total", "Connections that a firewall brought here.", prometheus.CounterValue, func(s *proxy.Stats) int64 { return s.Transparent }},
	{"transparent_misdirected_total", "Requests and hellos that name a host which does not have the address they went to.", prometheus.CounterValue, func(s *proxy.Stats) int64 { return s.Misdirected }},
	{"warn_clicks_total", "Clicks on warn pages that count.", prometheus.CounterValue, func(s *proxy.Stats) int64 { return s.Clicks }},
	{"warn_clicks_refused_total", "Clicks on warn pages whose token was spent before, or is not the client's.", prometheus.CounterValue, func(s *proxy.Stats) int64 { return s.ClicksRefused }},
	{"panics_total", "Panics caught while serving a connection.", prometheus.CounterValue, func(s *proxy.Stats) int64 { return s.Panics }},
}

// A watcher reads the counters that other rooms keep, when somebody asks.
type watcher struct {
	proxy   func() proxy.Stats
	events  func() []event.Stats
	built   func() time.Time
	descs   []*prometheus.Desc
	written *prometheus.Desc
	dropped *prometheus.Desc
	failed  *prometheus.Desc
	queued  *prometheus.Desc
	since   *prometheus.Desc
}

func newWatcher(p func() proxy.Stats, e func() []event.Stats, built func() time.Time) *watcher {
	w := &watcher{proxy: p, events: e, built: built}
	for _, r := range proxyReadings {
		w.descs = append(w.descs, prometheus.NewDesc("shuultuur_"+r.name, r.help, nil, nil))
	}
	store := []string{"store"}
	w.written = prometheus.NewDesc("shuultuur_events_written_total", "Events a store has kept.", store, nil)
	w.dropped = prometheus.NewDesc("shuultuur_events_dropped_total", "Events lost because a queue was full or the program ended.", store, nil)
	w.failed = prometheus.NewDesc("shuultuur_events_failed_total", "Writes to a store that failed.", store, nil)
	w.queued = prometheus.NewDesc("shuultuur_events_queued", "Events waiting to be written.", store, nil)
	w.since = prometheus.NewDesc("shuultuur_engine_built_timestamp_seconds", "When the running settings and lists were taken into use.", nil, nil)
	return w
}

// Describe implements prometheus.Collector.
func (w *watcher) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range w.descs {
		ch <- d
	}
	for _, d := range []*prometheus.Desc{w.written, w.dropped, w.failed, w.queued, w.since} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (w *watcher) Collect(ch chan<- prometheus.Metric) {
	s := w.proxy()
	for i, r := range proxyReadings {
		ch <- prometheus.MustNewConstMetric(w.descs[i], r.kind, float64(r.value(&s)))
	}
	for _, e := range w.events() {
		ch <- prometheus.MustNewConstMetric(w.written, prometheus.CounterValue, float64(e.Written), e.Store)
		ch <- prometheus.MustNewConstMetric(w.dropped, prometheus.CounterValue, float64(e.Dropped), e.Store)
		ch <- prometheus.MustNewConstMetric(w.failed, prometheus.CounterValue, float64(e.Failed), e.Store)
		ch <- prometheus.MustNewConstMetric(w.queued, prometheus.GaugeValue, float64(e.Queued), e.Store)
	}
	ch <- prometheus.MustNewConstMetric(w.since, prometheus.GaugeValue, float64(w.built().UnixMilli())/1000)
}
