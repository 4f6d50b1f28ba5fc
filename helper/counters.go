package helper

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// counters count what became of questions.
type counters struct {
	open                                atomic.Int64 // connections of helpers
	asked, refusals, failed, full, lost atomic.Uint64
}

var (
	openDesc   = prometheus.NewDesc("shuultuur_helper_connections", "Helpers of Squid that are connected.", nil, nil)
	askedDesc  = prometheus.NewDesc("shuultuur_helper_asked_total", "Questions of Squid's helpers.", nil, nil)
	resultDesc = prometheus.NewDesc("shuultuur_helper_results_total", "Questions of Squid's helpers that were refused (refused), could not be answered (failed), connections that were too many (full) and pages that were fetched too late (late), by what.", []string{"what"}, nil)
)

// Describe implements [prometheus.Collector].
func (s *Server) Describe(ch chan<- *prometheus.Desc) {
	ch <- openDesc
	ch <- askedDesc
	ch <- resultDesc
}

// Collect implements [prometheus.Collector].
func (s *Server) Collect(ch chan<- prometheus.Metric) {
	ch <- prometheus.MustNewConstMetric(openDesc, prometheus.GaugeValue, float64(s.open.Load()))
	ch <- prometheus.MustNewConstMetric(askedDesc, prometheus.CounterValue, float64(s.asked.Load()))
	for what, n := range map[string]*atomic.Uint64{"refused": &s.refusals, "failed": &s.failed, "full": &s.full, "late": &s.lost} {
		ch <- prometheus.MustNewConstMetric(resultDesc, prometheus.CounterValue, float64(n.Load()), what)
	}
}
