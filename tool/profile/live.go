package profile

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	// history is how many seconds the rows of the screen look back.
	history    = 60
	maxMetrics = 8 << 20
)

// Live draws a screen of memory, collector and scheduler once a second until
// ctx is done. screen reports whether w is a terminal: then it is cleared
// before each drawing, otherwise drawings follow one another.
func (c *Client) Live(ctx context.Context, w io.Writer, screen bool) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	v := view{name: c.cfg.Admin}
	for {
		s, err := c.scrape(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		text := v.draw(s)
		if screen {
			// Move home, clear each line to its end and the screen below the last: no
			// flicker, because the screen is never empty.
			text = "\x1b[H" + strings.ReplaceAll(text, "\n", "\x1b[K\n") + "\x1b[J"
		} else {
			text += "\n"
		}
		if _, err := io.WriteString(w, text); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// scrape is one answer of /metrics.
type scrape struct {
	at      time.Time
	values  map[string]float64 // sums over all labels
	buckets map[string][]bucket
}

// A bucket counts values up to its end, including those of the buckets below.
type bucket struct{ end, count float64 }

// readMetrics parses the needed part of the Prometheus text format: a name,
// optional labels, a value. It adds up over labels other than le.
func readMetrics(data []byte) (*scrape, error) {
	s := &scrape{values: map[string]float64{}, buckets: map[string][]bucket{}}
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(make([]byte, 0, 4096), 64<<10)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		name, rest := line, ""
		if i := strings.IndexAny(line, "{ \t"); i >= 0 {
			name, rest = line[:i], line[i:]
		}
		labels := ""
		if strings.HasPrefix(rest, "{") {
			// Label values may contain any byte; the number after them has no brace.
			i := strings.LastIndexByte(rest, '}')
			if i < 0 {
				return nil, fmt.Errorf("/metrics:%d: labels without an end: %.80q", n, line)
			}
			labels, rest = rest[1:i], rest[i+1:]
		}
		words := strings.Fields(rest)
		if len(words) == 0 {
			return nil, fmt.Errorf("/metrics:%d: no value: %.80q", n, line)
		}
		v, err := strconv.ParseFloat(words[0], 64)
		if err != nil {
			return nil, fmt.Errorf("/metrics:%d: %.80q is not a number", n, words[0])
		}
		if of, ok := strings.CutSuffix(name, "_bucket"); ok {
			// The end of a bucket is its last label.
			if i := strings.LastIndex(labels, `le="`); i >= 0 {
				if end, err := strconv.ParseFloat(strings.TrimRight(labels[i+len(`le="`):], `",`), 64); err == nil {
					s.count(of, bucket{end, v})
				}
			}
			continue
		}
		s.values[name] += v
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read /metrics: %w", err)
	}
	if _, ok := s.values["go_goroutines"]; !ok {
		return nil, errors.New("/metrics has no go_goroutines: is this the admin address of a gateway?")
	}
	for _, b := range s.buckets {
		slices.SortStableFunc(b, func(a, b bucket) int { return cmp.Compare(a.end, b.end) })
	}
	return s, nil
}

// count adds to the bucket with the same end, so that labels do not matter.
func (s *scrape) count(name string, b bucket) {
	i := slices.IndexFunc(s.buckets[name], func(c bucket) bool { return c.end == b.end })
	if i < 0 {
		s.buckets[name] = append(s.buckets[name], b)
		return
	}
	s.buckets[name][i].count += b.count
}

// view is the screen and the history that it shows.
type view struct {
	name             string
	before           *scrape
	heap, runs, busy []float64
}

func remember(row []float64, v float64) []float64 {
	row = append(row, v)
	return row[max(0, len(row)-history):]
}

// draw returns the screen for a scrape.
func (v *view) draw(s *scrape) string {
	was := v.before
	if was == nil {
		was = s
	}
	v.before = s
	gap := max(s.at.Sub(was.at).Seconds(), 1e-3)
	now := func(name string) float64 { return s.values[name] }
	rate := func(name string) float64 { return max(0, s.values[name]-was.values[name]) / gap }

	heap, goal := now("go_memstats_heap_alloc_bytes"), now("go_gc_heap_goal_bytes")
	runnable := now("go_sched_goroutines_runnable_goroutines")
	cores := rate("process_cpu_seconds_total")
	v.heap, v.runs, v.busy = remember(v.heap, heap), remember(v.runs, runnable), remember(v.busy, cores)
	gcShare := 0.0
	if total := rate("go_cpu_classes_total_cpu_seconds_total"); total > 0 {
		gcShare = 100 * rate("go_cpu_classes_gc_total_cpu_seconds_total") / total
	}
	pauses, waits := since(s, was, "go_sched_pauses_total_gc_seconds"), since(s, was, "go_sched_latencies_seconds")

	var b strings.Builder
	f := func(format string, args ...any) { fmt.Fprintf(&b, format, args...) }
	f("%s  %s  (Ctrl-C ends)\n\n", v.name, s.at.Format(time.TimeOnly))
	f("heap        %10s  live %s after the last collection, next at %s\n", bytesOf(heap), bytesOf(now("go_gc_heap_live_bytes")), bytesOf(goal))
	f("resident    %10s  allocating %s/s\n", bytesOf(now("process_resident_memory_bytes")), bytesOf(rate("go_memstats_alloc_bytes_total")))
	f("collections %10.0f  %.1f/s, %.1f %% of the processors\n", now("go_gc_cycles_total_gc_cycles_total"), rate("go_gc_cycles_total_gc_cycles_total"), gcShare)
	f("pauses      %10s  %s\n", "", quantiles(pauses))
	f("goroutines  %10.0f  %.0f running, %.0f in the run queue, %.0f waiting, %.0f in the system\n", now("go_goroutines"),
		now("go_sched_goroutines_running_goroutines"), runnable, now("go_sched_goroutines_waiting_goroutines"), now("go_sched_goroutines_not_in_go_goroutines"))
	f("their turn  %10s  %s\n", "", quantiles(waits))
	f("processors  %10.2f  of %.0f, %.0f threads\n", cores, now("go_sched_gomaxprocs_threads"), now("go_threads"))
	f("requests    %10.1f/s  %.0f connections, %.0f queued\n\n", rate("shuultuur_requests_total"), now("shuultuur_connections"), now("shuultuur_requests_queued"))
	f("the last %d seconds, each row from 0 to its largest\n", len(v.heap))
	for _, row := range []struct {
		name   string
		values []float64
		show   func(float64) string
	}{
		{"heap", v.heap, bytesOf},
		{"run queue", v.runs, func(x float64) string { return strconv.FormatFloat(x, 'f', 0, 64) }},
		{"processors", v.busy, func(x float64) string { return strconv.FormatFloat(x, 'f', 2, 64) }},
	} {
		f("%-10s |%-*s| %s\n", row.name, history, bars(row.values), row.show(slices.Max(row.values)))
	}
	return b.String()
}

// since returns the values of a histogram that were added between two scrapes.
func since(s, was *scrape, name string) []bucket {
	before := map[float64]float64{}
	for _, b := range was.buckets[name] {
		before[b.end] = b.count
	}
	var d []bucket
	for _, b := range s.buckets[name] {
		d = append(d, bucket{b.end, b.count - before[b.end]})
	}
	return d
}

// quantiles prints the ends of the buckets that hold p50, p99 and the largest.
func quantiles(h []bucket) string {
	if len(h) == 0 {
		return "not reported by this gateway"
	}
	n := h[len(h)-1].count
	if n <= 0 {
		return "none in the last second"
	}
	at := func(q float64) string {
		low := 0.0
		for _, b := range h {
			if b.count >= q*n {
				if math.IsInf(b.end, 1) {
					return "over " + formatDuration(time.Duration(low*1e9))
				}
				return "≤ " + formatDuration(time.Duration(b.end*1e9))
			}
			low = b.end
		}
		return "?"
	}
	return fmt.Sprintf("%.0f in the last second, p50 %s, p99 %s, max %s", n, at(0.5), at(0.99), at(1))
}

// bars draws values as a row of characters any terminal has.
func bars(values []float64) string {
	const steps = " .:-=+*#"
	top := slices.Max(values)
	var b strings.Builder
	for _, v := range values {
		i := 0
		if top > 0 && v > 0 {
			i = 1 + int(v/top*float64(len(steps)-2))
		}
		b.WriteByte(steps[min(max(i, 0), len(steps)-1)])
	}
	return b.String()
}
