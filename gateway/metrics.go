package gateway

import (
	"net/http"
	"sync/atomic"
	"time"

	"shuultuur/admin/home"
	"shuultuur/filter"
	"shuultuur/lib/metric"
)

// metrics are shown by /metrics. Labels are names in the settings (policy, rule, category),
// never hosts or evidence, so that the settings bound their number.
type metrics struct {
	handler      http.Handler
	transactions *metric.CounterVec
	seconds      *metric.HistogramVec
	reloads      *metric.CounterVec
	live         home.Live // the last hour
	// For the desk of a fleet: requests, those that could not be served, and those of people to open
	// what is blocked.
	served, failed, asked atomic.Int64
}

func newMetrics(g *Gateway) *metrics {
	m := &metrics{
		transactions: metric.NewCounterVec("shuultuur_transactions_total", "Completed transactions, by verdict and reason.", "proto", "action", "policy", "rule", "category"),
		seconds:      metric.NewHistogramVec("shuultuur_transaction_seconds", "From the first byte of a request to the last byte of its response.", []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 10, 60}, "proto"),
		reloads:      metric.NewCounterVec("shuultuur_reloads_total", "Attempts to apply new settings or lists.", "result"),
	}
	for _, result := range []string{"taken", "refused"} {
		m.reloads.With(result) // Prometheus sees no increase from a counter that was not there
	}
	m.handler = metric.Handler(m.transactions, m.seconds, m.reloads, g.refresher, collector{g}, metric.Process())
	return m
}

// count counts a finished transaction.
func (m *metrics) count(t *filter.Transaction) {
	proto, r := t.Proto.String(), &t.Verdict.Reason
	m.transactions.With(proto, t.Verdict.Action.String(), r.Policy, r.Rule, r.Finding.Category).Inc()
	m.seconds.With(proto).Observe(t.Duration.Seconds())
	m.live.Add(time.Now(), t)
	m.served.Add(1)
	if t.Status >= http.StatusBadGateway && t.Status <= http.StatusGatewayTimeout {
		m.failed.Add(1)
	}
}

// A collector collects from the parts in use.
type collector struct{ g *Gateway }

// Collect implements [metric.Collector].
func (c collector) Collect(ch chan<- metric.Metric) {
	e := c.g.engine.Load()
	if e == nil {
		return
	}
	built := metric.NewDesc("shuultuur_engine_built_timestamp_seconds", "When the running settings and lists were applied.")
	ch <- metric.New(built, metric.Gauge, float64(e.Built.UnixMilli())/1000)
	for _, p := range e.Parts() {
		if v, ok := p.Value.(metric.Collector); ok {
			v.Collect(ch)
		}
	}
}
