//go:build !small

package signature

import "shuultuur/lib/metric"

var (
	rulesDesc       = metric.NewDesc("shuultuur_signature_rules", "Signature rules in use.")
	checksDesc      = metric.NewDesc("shuultuur_signature_checks_total", "Times that a rule was tried beyond its fast pattern.")
	expressionsDesc = metric.NewDesc("shuultuur_signature_expressions_total", "Regular expressions run.")
	alertsDesc      = metric.NewDesc("shuultuur_signature_alerts_total", "Rules that matched.")
	unsavedDesc     = metric.NewDesc("shuultuur_signature_unsaved_total", "Datasets that could not be saved.")
	disabledDesc    = metric.NewDesc("shuultuur_signature_disabled", "Rules that are disabled because they took too long.")
	budgetDesc      = metric.NewDesc("shuultuur_signature_over_budget_total", "Rules and messages that took longer than they may.", "of")
)

// Collect implements [metric.Collector].
func (c *Check) Collect(ch chan<- metric.Metric) {
	n := c.engine.Counters()
	ch <- metric.New(rulesDesc, metric.Gauge, float64(c.engine.Rules()))
	ch <- metric.New(disabledDesc, metric.Gauge, float64(n.Disabled.Load()))
	count := func(d *metric.Desc, v int64, labels ...string) {
		ch <- metric.New(d, metric.Count, float64(v), labels...)
	}
	count(checksDesc, n.Checks.Load())
	count(expressionsDesc, n.Regexps.Load())
	count(alertsDesc, n.Alerts.Load())
	count(unsavedDesc, c.engine.State().Unsaved.Load())
	count(budgetDesc, n.OverRule.Load(), "rule")
	count(budgetDesc, n.OverMessage.Load(), "message")
}
