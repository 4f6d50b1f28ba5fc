package metric

import (
	"regexp"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"shuultuur/lib/platform"
)

// shown has values of the runtime beside the library's usual ones, including those that
// "shuultuur profile -live" shows.
var shown = regexp.MustCompile(`^(/sched/(latencies|goroutines[-/]|pauses/total/gc).*|/gc/(heap/(live|goal)|cycles/total):.*|/cpu/classes/(gc/)?total:.*)$`)

// Process collects metrics of this process from the system and Go's runtime, under the names that
// dashboards expect.
func Process() Collector {
	return together{
		collectors.NewGoCollector(collectors.WithGoCollectorRuntimeMetrics(collectors.GoRuntimeMetricsRule{Matcher: shown})),
		&process{collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), time.Now()},
	}
}

// process collects what the library knows of the process, and on systems where it knows nothing,
// such as FreeBSD, what the system says without /proc.
type process struct {
	prometheus.Collector
	started time.Time
}

// Collect implements [Collector].
func (p *process) Collect(ch chan<- Metric) {
	found := make(chan Metric)
	go func() {
		defer close(found)
		p.Collector.Collect(found)
	}()
	n := 0
	for m := range found {
		n++
		ch <- m
	}
	if n > 0 {
		return
	}
	value := func(name, help string, kind Kind, v float64) { ch <- New(NewDesc(name, help), kind, v) }
	value("process_start_time_seconds", "When the process began to collect, since 1970.", Gauge, float64(p.started.UnixMilli())/1000)
	value("process_cpu_seconds_total", "Processor time used.", Count, platform.CPU().Seconds())
	if files, _, err := platform.Files(); err == nil {
		value("process_max_fds", "File descriptors that the process may have.", Gauge, float64(files))
	}
}
