package policy

import "github.com/prometheus/client_golang/prometheus"

// Metrics are the counters of engines. They outlive the engines that settings
// and reloads replace. They are a [prometheus.Collector].
type Metrics struct {
	monitored *prometheus.CounterVec
	failures  *prometheus.CounterVec
}

// NewMetrics makes counters that are all zero.
func NewMetrics() *Metrics {
	return &Metrics{
		monitored: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "shuultuur_policy_monitored_total",
			Help: "Transactions that matched a rule whose action is monitor.",
		}, []string{"policy", "rule"}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "shuultuur_policy_check_failures_total",
			Help: "Errors and panics of a check, each of which became a finding.",
		}, []string{"check"}),
	}
}

// Describe implements [prometheus.Collector].
func (m *Metrics) Describe(ch chan<- *prometheus.Desc) {
	m.monitored.Describe(ch)
	m.failures.Describe(ch)
}

// Collect implements [prometheus.Collector].
func (m *Metrics) Collect(ch chan<- prometheus.Metric) {
	m.monitored.Collect(ch)
	m.failures.Collect(ch)
}

// Metrics returns the counters of the engine, nil for none.
func (e *Engine) Metrics() *Metrics { return e.metrics }

// Describe implements [prometheus.Collector].
func (e *Engine) Describe(ch chan<- *prometheus.Desc) {
	if e.metrics != nil {
		e.metrics.Describe(ch)
	}
}

// Collect implements [prometheus.Collector].
func (e *Engine) Collect(ch chan<- prometheus.Metric) {
	if e.metrics != nil {
		e.metrics.Collect(ch)
	}
}
