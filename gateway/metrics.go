package gateway

import (
	"net/http"
	"regexp"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"shuultuur/admin"
	"shuultuur/filter"
)

// metrics are what /metrics shows. Labels are words of the settings (policy,
// rule, category), never hosts or evidence: their number is bounded by the
// settings file.
type metrics struct {
	registry     *prometheus.Registry
	transactions *prometheus.CounterVec
	seconds      *prometheus.HistogramVec
	reloads      *prometheus.CounterVec
	live         admin.Live // the last hour
}

func newMetrics(g *Gateway) *metrics {
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
	}
	m.registry.MustRegister(m.transactions, m.seconds, m.reloads, g.refresher, collector{g},
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
	m.live.Add(time.Now(), t)
}

// A collector collects from the parts that are in use.
type collector struct{ g *Gateway }

// Describe implements [prometheus.Collector]: what there is depends on the
// settings, and changes with them.
func (c collector) Describe(chan<- *prometheus.Desc) {}

// Collect implements [prometheus.Collector].
func (c collector) Collect(ch chan<- prometheus.Metric) {
	e := c.g.engine.Load()
	if e == nil {
		return
	}
	built := prometheus.NewDesc("shuultuur_engine_built_timestamp_seconds", "When the running settings and lists were taken into use.", nil, nil)
	ch <- prometheus.MustNewConstMetric(built, prometheus.GaugeValue, float64(e.built.UnixMilli())/1000)
	for _, p := range parts() {
		if v, ok := p.value(e).(prometheus.Collector); ok {
			v.Collect(ch)
		}
	}
}
