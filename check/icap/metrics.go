//go:build !small

package icap

import "shuultuur/lib/metric"

// Counters of a Check.
const (
	asked = iota
	passed
	found
	unread
	failed
	failovers
	counted
)

var descs = [counted]*metric.Desc{
	asked:     desc("asked_total", "Messages that were sent to an ICAP scanner."),
	passed:    desc("passed_total", "Messages in which an ICAP scanner found nothing."),
	found:     desc("found_total", "Messages in which an ICAP scanner found something."),
	unread:    desc("unread_total", "Messages that were not sent to an ICAP scanner, or only in part."),
	failed:    desc("failed_total", "Messages that no ICAP scanner could scan."),
	failovers: desc("failovers_total", "Messages that went to another ICAP scanner because one failed."),
}

var (
	upDesc   = metric.NewDesc("shuultuur_scanner_up", "Whether an ICAP scanner is asked: 0 while it is left out.", "server")
	busyDesc = metric.NewDesc("shuultuur_scanner_connections", "Connections to an ICAP scanner in use.", "server")
)

func desc(name, help string) *metric.Desc {
	return metric.NewDesc("shuultuur_scanner_"+name, help)
}

// Collect implements [metric.Collector].
func (c *Check) Collect(ch chan<- metric.Metric) {
	for n := range c.counters {
		ch <- metric.New(descs[n], metric.Count, float64(c.counters[n].Load()))
	}
	for _, s := range c.servers {
		up := 1.0
		if s.down.Load() != nil {
			up = 0
		}
		ch <- metric.New(upDesc, metric.Gauge, up, s.url)
		ch <- metric.New(busyDesc, metric.Gauge, float64(s.gate.InUse()), s.url)
	}
}
