package icap

import "github.com/prometheus/client_golang/prometheus"

// What a Check counts.
const (
	asked = iota
	passed
	found
	unread
	failed
	failovers
	counted
)

var descs = [counted]*prometheus.Desc{
	asked:     desc("asked_total", "Messages that were sent to an ICAP scanner."),
	passed:    desc("passed_total", "Messages in which an ICAP scanner found nothing."),
	found:     desc("found_total", "Messages in which an ICAP scanner found something."),
	unread:    desc("unread_total", "Messages that were not sent to an ICAP scanner, or not whole."),
	failed:    desc("failed_total", "Messages that no ICAP scanner could look at."),
	failovers: desc("failovers_total", "Messages that went to another ICAP scanner because one failed."),
}

var (
	upDesc   = prometheus.NewDesc("shuultuur_scanner_up", "Whether an ICAP scanner is asked: 0 while it is left out.", []string{"server"}, nil)
	busyDesc = prometheus.NewDesc("shuultuur_scanner_connections", "Connections to an ICAP scanner in use.", []string{"server"}, nil)
)

func desc(name, help string) *prometheus.Desc {
	return prometheus.NewDesc("shuultuur_scanner_"+name, help, nil, nil)
}

// Describe implements [prometheus.Collector].
func (c *Check) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range descs {
		ch <- d
	}
	ch <- upDesc
	ch <- busyDesc
}

// Collect implements [prometheus.Collector].
func (c *Check) Collect(ch chan<- prometheus.Metric) {
	for n := range c.counters {
		ch <- prometheus.MustNewConstMetric(descs[n], prometheus.CounterValue, float64(c.counters[n].Load()))
	}
	for _, s := range c.servers {
		up := 1.0
		if s.down.Load() != nil {
			up = 0
		}
		ch <- prometheus.MustNewConstMetric(upDesc, prometheus.GaugeValue, up, s.url)
		ch <- prometheus.MustNewConstMetric(busyDesc, prometheus.GaugeValue, float64(s.gate.inUse()), s.url)
	}
}
