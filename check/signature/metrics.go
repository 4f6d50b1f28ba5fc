package signature

import "github.com/prometheus/client_golang/prometheus"

var (
	rulesDesc       = prometheus.NewDesc("shuultuur_signature_rules", "Signature rules in use.", nil, nil)
	checksDesc      = prometheus.NewDesc("shuultuur_signature_checks_total", "Times that a rule was tried beyond its fast pattern.", nil, nil)
	expressionsDesc = prometheus.NewDesc("shuultuur_signature_expressions_total", "Regular expressions run.", nil, nil)
	alertsDesc      = prometheus.NewDesc("shuultuur_signature_alerts_total", "Rules that matched.", nil, nil)
	unsavedDesc     = prometheus.NewDesc("shuultuur_signature_unsaved_total", "Datasets that could not be saved.", nil, nil)
	budgetDesc      = prometheus.NewDesc("shuultuur_signature_over_budget_total", "Rules and messages that took longer than they may.", []string{"of"}, nil)
)

// Describe implements [prometheus.Collector].
func (c *Check) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{rulesDesc, checksDesc, expressionsDesc, alertsDesc, budgetDesc, unsavedDesc} {
		ch <- d
	}
}

// Collect implements [prometheus.Collector].
func (c *Check) Collect(ch chan<- prometheus.Metric) {
	n := c.engine.Counters()
	ch <- prometheus.MustNewConstMetric(rulesDesc, prometheus.GaugeValue, float64(c.engine.Rules()))
	count := func(d *prometheus.Desc, v int64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
	}
	count(checksDesc, n.Checks.Value())
	count(expressionsDesc, n.Regexps.Value())
	count(alertsDesc, n.Alerts.Value())
	count(unsavedDesc, c.engine.State().Unsaved.Load())
	count(budgetDesc, n.OverRule.Value(), "rule")
	count(budgetDesc, n.OverMessage.Value(), "message")
}
