package metric_test

import (
	"math"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"shuultuur/lib/metric"
	"shuultuur/lib/metric/metrictest"
)

// sends is a collector that sends given values.
type sends []metric.Metric

func (s sends) Collect(ch chan<- metric.Metric) {
	for _, m := range s {
		ch <- m
	}
}

func TestTheTextIsThatOfPrometheus(t *testing.T) {
	vec := metric.NewCounterVec("b_total", "By type.", "type", "by")
	vec.With("A", `a "b" \ c`+"\n").Add(3)
	vec.With("A", "\xff").Inc()
	times := metric.NewHistogramVec("c_seconds", "Times.", []float64{0.5, 1})
	for _, x := range []float64{0.5, 0.7, 2} {
		times.With().Observe(x)
	}
	plain := metric.NewCounter("a_total", "Plain, \\ with\ntwo lines.")
	plain.Inc()
	odd := metric.NewDesc("d", "Odd.")
	w := httptest.NewRecorder()
	metric.Handler(times, vec, plain, sends{metric.New(odd, metric.Gauge, math.Inf(1))}).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	const want = `# HELP a_total Plain, \\ with\ntwo lines.
# TYPE a_total counter
a_total 1
# HELP b_total By type.
# TYPE b_total counter
b_total{by="a \"b\" \\ c\n",type="A"} 3
b_total{by="` + "\uFFFD" + `",type="A"} 1
# HELP c_seconds Times.
# TYPE c_seconds histogram
c_seconds_bucket{le="0.5"} 1
c_seconds_bucket{le="1"} 2
c_seconds_bucket{le="+Inf"} 3
c_seconds_sum 3.2
c_seconds_count 3
# HELP d Odd.
# TYPE d gauge
d +Inf
`
	if got := w.Body.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := w.Header().Get("Content-Type"); got != "text/plain; version=0.0.4; charset=utf-8; escaping=underscores" {
		t.Errorf("Content-Type is %s", got)
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	all, err := parser.TextToMetricFamilies(w.Body)
	if err != nil || len(all) != 4 || all["b_total"].GetMetric()[0].GetLabel()[0].GetValue() != "a \"b\" \\ c\n" {
		t.Errorf("Prometheus's own reader finds %v, %v", all, err)
	}
}

// TestAValueThatIsThereTwice: a scrape reports this mistake in the program.
func TestAValueThatIsThereTwice(t *testing.T) {
	d := metric.NewDesc("x_total", "X.", "of")
	w := httptest.NewRecorder()
	metric.Handler(sends{metric.New(d, metric.Count, 1, "a"), metric.New(d, metric.Count, 2, "b"), metric.New(d, metric.Count, 3, "a")}).
		ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	// protobuf varies the spaces in its texts.
	if w.Code != 500 || !strings.Contains(strings.Join(strings.Fields(w.Body.String()), " "), `collected metric "x_total" { label:{name:"of" value:"a"}`) {
		t.Errorf("a scrape with a duplicate value: status %d, want 500 and the metric: %s", w.Code, w.Body)
	}
}

func TestManyCountAtOnce(t *testing.T) {
	vec, times := metric.NewCounterVec("n_total", "N.", "of"), metric.NewHistogramVec("s", "S.", metric.Doubling(1, 3), "of")
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 1000 {
				vec.With("a").Inc()
				times.With("b").Observe(2)
			}
		})
	}
	wg.Wait()
	got, err := metrictest.Read(vec, times)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]float64{`n_total{of="a"}`: 8000, `s_sum{of="b"}`: 16000, `s_bucket{of="b",le="1"}`: 0, `s_bucket{of="b",le="2"}`: 8000, `s_bucket{of="b",le="4"}`: 8000} {
		if got[name] != want {
			t.Errorf("%s: got %v, want %v", name, got[name], want)
		}
	}
	if n := testing.AllocsPerRun(100, func() { vec.With("a").Inc() }); n > 0 {
		t.Errorf("counting allocates %v times, want 0", n)
	}
}

// TestTheProcessIsDescribed checks for the names that dashboards and "shuultuur profile -live"
// use, and that other readers understand the whole text.
func TestTheProcessIsDescribed(t *testing.T) {
	var text strings.Builder
	if err := metric.Write(&text, metric.Process()); err != nil {
		t.Fatal(err)
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	all, err := parser.TextToMetricFamilies(strings.NewReader(text.String()))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"go_goroutines", "go_threads", "go_info", "go_memstats_heap_alloc_bytes", "go_memstats_alloc_bytes_total", "go_gc_cycles_total_gc_cycles_total",
		"go_gc_heap_goal_bytes", "go_gc_heap_live_bytes", "go_sched_gomaxprocs_threads", "go_sched_goroutines_running_goroutines", "go_sched_goroutines_runnable_goroutines",
		"go_cpu_classes_total_cpu_seconds_total", "go_cpu_classes_gc_total_cpu_seconds_total", "process_cpu_seconds_total", "process_max_fds", "process_start_time_seconds"} {
		if f := all[name]; f == nil || len(f.GetMetric()) != 1 {
			t.Errorf("the scrape lacks %s, or has it twice: %v", name, f)
		}
	}
	for _, name := range []string{"go_sched_latencies_seconds", "go_sched_pauses_total_gc_seconds"} {
		h := all[name].GetMetric()[0].GetHistogram()
		if n := len(h.GetBucket()); n < 8 || n > 64 {
			t.Errorf("%s has %d buckets, want 8 to 64", name, n)
		}
	}
}
