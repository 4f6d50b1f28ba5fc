package helper

import (
	"sync/atomic"

	"shuultuur/lib/metric"
)

// counters count questions by their result.
type counters struct {
	open                                atomic.Int64 // connections of helpers
	asked, refusals, failed, full, lost atomic.Uint64
}

var (
	openDesc   = metric.NewDesc("shuultuur_helper_connections", "Helpers of Squid that are connected.")
	askedDesc  = metric.NewDesc("shuultuur_helper_asked_total", "Questions of Squid's helpers.")
	resultDesc = metric.NewDesc("shuultuur_helper_results_total", "Questions of Squid's helpers that were refused (refused), could not be answered (failed), connections that were too many (full) and pages that were fetched too late (late), by what.", "what")
)

// Collect implements [metric.Collector].
func (s *Server) Collect(ch chan<- metric.Metric) {
	ch <- metric.New(openDesc, metric.Gauge, float64(s.open.Load()))
	ch <- metric.New(askedDesc, metric.Count, float64(s.asked.Load()))
	for what, n := range map[string]*atomic.Uint64{"refused": &s.refusals, "failed": &s.failed, "full": &s.full, "late": &s.lost} {
		ch <- metric.New(resultDesc, metric.Count, float64(n.Load()), what)
	}
}
