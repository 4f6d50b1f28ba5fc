package policy

import "shuultuur/lib/metric"

// Metrics are the counters of engines. They outlive the engines that settings
// and reloads replace. They are a [metric.Collector].
type Metrics struct {
	monitored *metric.CounterVec
	failures  *metric.CounterVec
}

// NewMetrics makes counters that are all zero.
func NewMetrics() *Metrics {
	return &Metrics{
		monitored: metric.NewCounterVec("shuultuur_policy_monitored_total", "Transactions that matched a rule whose action is monitor.", "policy", "rule"),
		failures:  metric.NewCounterVec("shuultuur_policy_check_failures_total", "Errors and panics of a check, each of which became a finding.", "check"),
	}
}

// Collect implements [metric.Collector].
func (m *Metrics) Collect(ch chan<- metric.Metric) {
	m.monitored.Collect(ch)
	m.failures.Collect(ch)
}
