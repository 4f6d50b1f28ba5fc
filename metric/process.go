package metric

import (
	"math"
	"os"
	"regexp"
	"runtime"
	"runtime/metrics"
	"strconv"
	"strings"
	"time"

	"shuultuur/platform"
)

// Process collects metrics of this process from the system and Go's runtime, under the usual
// client library's names, which dashboards expect.
func Process() Collector { return &process{started: time.Now()} }

type process struct{ started time.Time }

// named has the values of the runtime with metrics of their own.
var named = []struct {
	key, name, help string
	kind            Kind
}{
	{"/sched/goroutines:goroutines", "go_goroutines", "Goroutines.", Gauge},
	{"/memory/classes/heap/objects:bytes", "go_memstats_alloc_bytes", "Bytes of objects on the heap.", Gauge},
	{"/memory/classes/heap/objects:bytes", "go_memstats_heap_alloc_bytes", "Bytes of objects on the heap.", Gauge},
	{"/gc/heap/allocs:bytes", "go_memstats_alloc_bytes_total", "Bytes that were allocated on the heap.", Count},
	{"/gc/heap/objects:objects", "go_memstats_heap_objects", "Objects on the heap.", Gauge},
	{"/gc/heap/goal:bytes", "go_memstats_next_gc_bytes", "Size of the heap at which the next collection ends.", Gauge},
	{"/memory/classes/total:bytes", "go_memstats_sys_bytes", "Bytes that the runtime has obtained from the system.", Gauge},
	{"/gc/gogc:percent", "go_gc_gogc_percent", "GOGC.", Gauge},
	{"/gc/gomemlimit:bytes", "go_gc_gomemlimit_bytes", "GOMEMLIMIT.", Gauge},
}

// shown has further values, named after their keys, including those that "shuultuur profile
// -live" shows.
var shown = regexp.MustCompile(`^(/sched/(latencies|gomaxprocs|goroutines|pauses/total/gc).*|/gc/(heap/(live|goal)|cycles/total):.*|/cpu/classes/(gc/)?total:.*)$`)

// Collect implements [Collector].
func (p *process) Collect(ch chan<- Metric) {
	value := func(name, help string, kind Kind, v float64) { ch <- New(NewDesc(name, help), kind, v) }
	ch <- New(NewDesc("go_info", "Version of Go.", "version"), Gauge, 1, runtime.Version())
	threads, _ := runtime.ThreadCreateProfile(nil)
	value("go_threads", "Threads of the system.", Gauge, float64(threads))
	runtimeValues(ch)

	value("process_start_time_seconds", "When the process began to collect, since 1970.", Gauge, float64(p.started.UnixMilli())/1000)
	value("process_cpu_seconds_total", "Processor time used.", Count, platform.CPU().Seconds())
	if files, _, err := platform.Files(); err == nil {
		value("process_max_fds", "File descriptors that the process may have.", Gauge, float64(files))
	}
	// Without /proc, as on FreeBSD, the following are unknown.
	if text, err := os.ReadFile("/proc/self/statm"); err == nil {
		if f := strings.Fields(string(text)); len(f) > 1 {
			size, _ := strconv.ParseFloat(f[0], 64)
			resident, _ := strconv.ParseFloat(f[1], 64)
			value("process_virtual_memory_bytes", "Size of the address space.", Gauge, size*float64(os.Getpagesize()))
			value("process_resident_memory_bytes", "Memory in use.", Gauge, resident*float64(os.Getpagesize()))
		}
	}
	if all, err := os.ReadDir("/proc/self/fd"); err == nil {
		value("process_open_fds", "File descriptors in use.", Gauge, float64(len(all)))
	}
}

// runtimeValues sends the values of runtime/metrics.
func runtimeValues(ch chan<- Metric) {
	help := map[string]string{}
	kind := map[string]Kind{}
	var samples []metrics.Sample
	for _, d := range metrics.All() {
		help[d.Name], kind[d.Name] = d.Description, Gauge
		if d.Cumulative {
			kind[d.Name] = Count
		}
		samples = append(samples, metrics.Sample{Name: d.Name})
	}
	metrics.Read(samples)
	values := map[string]float64{}
	for _, s := range samples {
		switch s.Value.Kind() {
		case metrics.KindUint64:
			values[s.Name] = float64(s.Value.Uint64())
		case metrics.KindFloat64:
			values[s.Name] = s.Value.Float64()
		case metrics.KindFloat64Histogram:
			if shown.MatchString(s.Name) {
				ch <- halved(NewDesc(runtimeName(s.Name, Gauge), help[s.Name]), s.Value.Float64Histogram())
			}
			continue
		default:
			continue
		}
		if shown.MatchString(s.Name) && s.Name != "/sched/goroutines:goroutines" {
			ch <- New(NewDesc(runtimeName(s.Name, kind[s.Name]), help[s.Name]), kind[s.Name], values[s.Name])
		}
	}
	for _, n := range named {
		if v, ok := values[n.key]; ok {
			ch <- New(NewDesc(n.name, n.help), n.kind, v)
		}
	}
}

// runtimeName derives a name from a key of runtime/metrics.
func runtimeName(key string, kind Kind) string {
	name := "go" + strings.NewReplacer("/", "_", ":", "_", "-", "_").Replace(key)
	if kind == Count {
		name += "_total"
	}
	return name
}

// halved returns a histogram of the runtime with fewer buckets: one for each power of two. Its
// sum is unknown and estimated from the middles of the buckets.
func halved(d *Desc, h *metrics.Float64Histogram) Metric {
	var buckets []Bucket
	sum, count, last := 0.0, uint64(0), 0.0
	for i, n := range h.Counts {
		low, high := h.Buckets[i], h.Buckets[i+1]
		count += n
		switch {
		case math.IsInf(high, 1):
			sum += float64(n) * low
			continue
		case math.IsInf(low, -1):
			low = high
		}
		sum += float64(n) * (low + high) / 2
		if high > 0 && (last == 0 || high >= 2*last || math.IsInf(h.Buckets[min(i+2, len(h.Buckets)-1)], 1)) {
			buckets = append(buckets, Bucket{high, count})
			last = high
		}
	}
	return NewHistogram(d, count, sum, buckets)
}
