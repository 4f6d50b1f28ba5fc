package load

import (
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Histograms count microseconds with three digits, up to an hour.
const (
	histMax    = int64(time.Hour / time.Microsecond)
	histDigits = 3
)

// The distributions of a run.
const (
	distConnect = iota
	distTLS
	distFirst
	distTotal
	distGood // complete responses without an error
	distIntended
	distBatch
	dists
)

// dist is one distribution. Mean, maximum and minimum are also kept in nanoseconds, because
// http_load prints them with six digits.
type dist struct {
	hist     *hdrhistogram.Histogram
	n        int64
	sum      time.Duration
	min, max time.Duration
}

func (d *dist) add(v time.Duration) {
	if v < 0 {
		return
	}
	if d.hist == nil {
		d.hist = hdrhistogram.New(1, histMax, histDigits)
	}
	// Limited, so recording cannot fail.
	_ = d.hist.RecordValue(min(int64(v/time.Microsecond), histMax))
	if d.n == 0 || v < d.min {
		d.min = v
	}
	d.max = max(d.max, v)
	d.n++
	d.sum += v
}

func (d *dist) merge(o *dist) {
	if o.n == 0 {
		return
	}
	if d.hist == nil {
		d.hist = hdrhistogram.New(1, histMax, histDigits)
	}
	d.hist.Merge(o.hist)
	if d.n == 0 || o.min < d.min {
		d.min = o.min
	}
	d.max = max(d.max, o.max)
	d.n += o.n
	d.sum += o.sum
}

// tally adds up samples. There is one per core rather than per worker, because a histogram
// takes some 200 KB.
type tally struct {
	mu sync.Mutex
	counts
	window window
}

// counts are the sums of a run.
type counts struct {
	dists   [dists]dist
	codes   [1000]int64
	errors  [classes]int64
	example [classes]error // first error of each class
	fetches int64          // answered completely, with any code
	bytes   int64
	changed int64
	fresh   int64
	retried int64
}

// window has the counts since the last sample.
type window struct {
	hist   *hdrhistogram.Histogram
	errors int64
}

func newTallies() []*tally {
	ts := make([]*tally, runtime.GOMAXPROCS(0))
	for i := range ts {
		ts[i] = &tally{window: window{hist: hdrhistogram.New(1, histMax, histDigits)}}
	}
	return ts
}

func (t *tally) add(s *sample) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.dists[distConnect].add(s.connect)
	t.dists[distTLS].add(s.tls)
	if s.fresh {
		t.fresh++
	}
	if s.retried {
		t.retried++
	}
	t.bytes += s.bytes
	if t.errors[s.class]++; t.errors[s.class] == 1 {
		t.example[s.class] = s.err
	}
	if s.changed {
		t.changed++
	}
	if s.class != ok {
		t.window.errors++
	}
	if s.class != ok && s.class != changed && s.class != status {
		return
	}
	// Only complete responses have a latency: a refused connection is fast.
	t.fetches++
	t.codes[s.code]++
	t.dists[distFirst].add(s.first)
	t.dists[distTotal].add(s.total)
	if s.class == ok {
		t.dists[distGood].add(s.total)
	}
	t.dists[distIntended].add(s.intended)
	_ = t.window.hist.RecordValue(min(int64(s.intended/time.Microsecond), histMax))
}

func (t *tally) batch(d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.dists[distBatch].add(d)
}

// sum adds up all tallies.
func (g *Generator) sum() *counts {
	all := &counts{}
	for _, t := range g.tallies {
		t.mu.Lock()
		for i := range all.dists {
			all.dists[i].merge(&t.dists[i])
		}
		for i, n := range t.codes {
			all.codes[i] += n
		}
		for i, n := range t.errors {
			all.errors[i] += n
			if all.example[i] == nil {
				all.example[i] = t.example[i]
			}
		}
		all.fetches += t.fetches
		all.bytes += t.bytes
		all.changed += t.changed
		all.fresh += t.fresh
		all.retried += t.retried
		t.mu.Unlock()
	}
	return all
}

// watch samples the tallies at even intervals, for the series of the report and the progress
// line.
type watch struct {
	g         *Generator
	start     time.Time
	every     time.Duration
	series    []Point
	lastShown time.Time // of the last progress line
	since     Point     // sum since then
}

// newWatch chooses an interval that gives a run some hundreds of points.
func newWatch(g *Generator, start time.Time) *watch {
	every := max(100*time.Millisecond, (g.cfg.Duration / 300).Truncate(100*time.Millisecond))
	if g.cfg.Duration == 0 {
		every = time.Second
	}
	return &watch{g: g, start: start, lastShown: start, every: every}
}

func (w *watch) run(over <-chan struct{}) {
	tick := time.NewTicker(w.every)
	defer tick.Stop()
	for {
		select {
		case now := <-tick.C:
			w.look(now)
		case <-over:
			w.look(time.Now())
			return
		}
	}
}

// maxPoints limits the series of a run of unknown length.
const maxPoints = 10_000

func (w *watch) look(now time.Time) {
	all := hdrhistogram.New(1, histMax, histDigits)
	p := Point{At: now.Sub(w.start).Seconds()}
	for _, t := range w.g.tallies {
		t.mu.Lock()
		all.Merge(t.window.hist)
		p.Errors += t.window.errors
		t.window.hist.Reset()
		t.window.errors = 0
		t.mu.Unlock()
	}
	p.Fetches = all.TotalCount()
	if p.Fetches > 0 {
		p.P50, p.P99, p.Max = quantile(all, 50), quantile(all, 99), ms(time.Duration(all.Max())*time.Microsecond)
	}
	if len(w.series) < maxPoints {
		w.series = append(w.series, p)
	}
	w.tell(now, p)
}

// tell writes the progress line. Its p99 is the worst in its intervals.
func (w *watch) tell(now time.Time, p Point) {
	w.since.Fetches += p.Fetches
	w.since.Errors += p.Errors
	w.since.P99 = max(w.since.P99, p.P99)
	gap := now.Sub(w.lastShown)
	// A tick may be slightly early.
	if w.g.cfg.Progress.To == nil || gap < w.g.cfg.Progress.Every*9/10 {
		return
	}
	fmt.Fprintf(w.g.cfg.Progress.To, "--- %.3g secs, %d fetches started, %d completed, %d current, %.6g/s, p99 %.3g ms, %d errors\n",
		now.Sub(w.start).Seconds(), w.g.started.Load(), w.completed(), w.g.inFlight.Load(),
		float64(w.since.Fetches)/gap.Seconds(), w.since.P99, w.since.Errors)
	w.lastShown, w.since = now, Point{}
}

func (w *watch) completed() int64 {
	n := int64(0)
	for _, t := range w.g.tallies {
		t.mu.Lock()
		n += t.fetches
		t.mu.Unlock()
	}
	return n
}
