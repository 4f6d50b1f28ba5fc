package profile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"golang.org/x/exp/trace"
)

// A step is the mutator utilisation from a time on: the share of the processors that the
// collector leaves to the program.
type step struct {
	at    trace.Time
	share float64
}

// traceResult is the evaluation of an execution trace.
type traceResult struct {
	begin, end trace.Time
	waits      *hdrhistogram.Histogram // µs from being able to run to running
	stops      *hdrhistogram.Histogram // µs for which the world stood still
	steps      []step

	procs    int
	stopped  int // nested stops of the world
	since    trace.Time
	runnable map[trace.GoID]trace.Time
	running  map[trace.GoID]bool
	assist   map[trace.GoID]bool // in a mark assist, running or not
	marking  map[trace.GoID]bool // background workers, while they run
	sweeping map[trace.ProcID]bool

	busy  map[trace.ProcID]time.Duration // how long each processor ran goroutines
	began map[trace.ProcID]trace.Time    // of those that do
}

// readTrace writes scheduler latency, pauses and minimum mutator utilisation.
func readTrace(b *strings.Builder, data []byte) {
	t, err := parseTrace(data)
	if err != nil {
		fmt.Fprintf(b, "trace.out cannot be read (%v); try go tool trace\n", err)
		return
	}
	fmt.Fprintf(b, "scheduler, over %s of trace on %d processors:\n", formatDuration(t.end.Sub(t.begin)), t.procs)
	for _, l := range []struct {
		name string
		h    *hdrhistogram.Histogram
	}{{"goroutines wait to run", t.waits}, {"the program is stopped", t.stops}} {
		if l.h.TotalCount() == 0 {
			fmt.Fprintf(b, "  %s: never\n", l.name)
			continue
		}
		q := func(p float64) string {
			return formatDuration(time.Duration(l.h.ValueAtPercentile(p)) * time.Microsecond)
		}
		fmt.Fprintf(b, "  %s: %d times, p50 %s, p99 %s, max %s\n", l.name, l.h.TotalCount(), q(50), q(99), q(100))
	}
	b.WriteString("  processors ran goroutines for")
	for _, share := range t.shares() {
		fmt.Fprintf(b, " %.0f %%", 100*share)
	}
	b.WriteString(" of the time\n")
	b.WriteString("minimum mutator utilisation (share of the processors the collector leaves, in the worst window):\n")
	for _, w := range []time.Duration{time.Millisecond, 10 * time.Millisecond, 100 * time.Millisecond, time.Second} {
		if w > t.end.Sub(t.begin) {
			break
		}
		fmt.Fprintf(b, "  %5.1f %%  in %s\n", 100*t.minimum(w), formatDuration(w))
	}
}

// parseTrace reads the events of a trace. An error in the middle ends the reading; earlier
// events count.
func parseTrace(data []byte) (t *traceResult, err error) {
	// The trace came over a network: a fault of the parser must not lose the other profiles.
	defer func() {
		if r := recover(); r != nil {
			t, err = nil, fmt.Errorf("not a trace: %v", r)
		}
	}()
	r, err := trace.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	const hour = int64(time.Hour / time.Microsecond)
	t = &traceResult{waits: hdrhistogram.New(1, hour, 3), stops: hdrhistogram.New(1, hour, 3), procs: 1,
		runnable: map[trace.GoID]trace.Time{}, running: map[trace.GoID]bool{}, assist: map[trace.GoID]bool{},
		marking: map[trace.GoID]bool{}, sweeping: map[trace.ProcID]bool{},
		busy: map[trace.ProcID]time.Duration{}, began: map[trace.ProcID]trace.Time{}}
	for n := 0; ; n++ {
		e, err := r.ReadEvent()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			if n == 0 {
				return nil, err
			}
			break
		}
		if n == 0 {
			t.begin = e.Time()
			t.steps = []step{{t.begin, 1}}
		}
		t.end = max(t.end, e.Time())
		t.event(&e)
	}
	if t.end <= t.begin {
		return nil, errors.New("it has no events")
	}
	return t, nil
}

func (t *traceResult) event(e *trace.Event) {
	switch e.Kind() {
	case trace.EventMetric:
		if m := e.Metric(); m.Name == "/sched/gomaxprocs:threads" && m.Value.Kind() == trace.ValueUint64 {
			t.procs = max(1, int(m.Value.Uint64()))
		}
	case trace.EventStateTransition:
		if s := e.StateTransition(); s.Resource.Kind == trace.ResourceGoroutine {
			t.transition(e.Time(), &s)
			t.ran(e, &s)
		}
	case trace.EventLabel:
		// A worker states its kind each time it begins to run. Idle workers use only spare
		// processors.
		if l := e.Label(); strings.HasPrefix(l.Label, "GC (") && l.Label != "GC (idle)" {
			t.marking[l.Resource.Goroutine()] = true
		}
	case trace.EventRangeBegin, trace.EventRangeActive, trace.EventRangeEnd:
		t.span(e)
	default:
		return
	}
	t.mark(e.Time())
}

func (t *traceResult) transition(at trace.Time, s *trace.StateTransition) {
	g := s.Resource.Goroutine()
	from, to := s.Goroutine()
	if since, ok := t.runnable[g]; ok && to.Executing() {
		_ = t.waits.RecordValue(int64(at.Sub(since) / time.Microsecond)) // an hour is never reached
	}
	delete(t.runnable, g)
	if to == trace.GoRunnable && from != trace.GoUndetermined {
		t.runnable[g] = at
	}
	if to.Executing() {
		t.running[g] = true
		return
	}
	delete(t.running, g)
	delete(t.marking, g)
	if to == trace.GoNotExist {
		delete(t.assist, g)
	}
}

// ran counts the time of a goroutine for the processor that ran it.
func (t *traceResult) ran(e *trace.Event, s *trace.StateTransition) {
	p := e.Proc()
	if p == trace.NoProc {
		return
	}
	from, to := s.Goroutine()
	if began, ok := t.began[p]; ok && from.Executing() && !to.Executing() {
		t.busy[p] += e.Time().Sub(began)
		delete(t.began, p)
	}
	if to == trace.GoRunning {
		if _, ok := t.began[p]; !ok {
			t.began[p] = e.Time()
		}
	}
}

// shares returns the share of the time for which each processor ran goroutines, in order.
func (t *traceResult) shares() (all []float64) {
	took := float64(t.end.Sub(t.begin))
	for p := range trace.ProcID(t.procs) {
		busy := t.busy[p]
		if began, ok := t.began[p]; ok {
			busy += t.end.Sub(began)
		}
		all = append(all, min(1, float64(busy)/took))
	}
	return all
}

// span records an activity of the collector that begins or ends with e.
func (t *traceResult) span(e *trace.Event) {
	r := e.Range()
	begins := e.Kind() != trace.EventRangeEnd
	switch {
	case strings.HasPrefix(r.Name, "stop-the-world"):
		if begins {
			if t.stopped++; t.stopped == 1 {
				t.since = e.Time()
			}
		} else if t.stopped > 0 {
			if t.stopped--; t.stopped == 0 {
				_ = t.stops.RecordValue(int64(e.Time().Sub(t.since) / time.Microsecond))
			}
		}
	case r.Name == "GC mark assist" && r.Scope.Kind == trace.ResourceGoroutine:
		set(t.assist, r.Scope.Goroutine(), begins)
	case r.Name == "GC incremental sweep" && r.Scope.Kind == trace.ResourceProc:
		set(t.sweeping, r.Scope.Proc(), begins)
	}
}

func set[K comparable](m map[K]bool, k K, in bool) {
	if in {
		m[k] = true
	} else {
		delete(m, k)
	}
}

// mark appends a step if the utilisation has changed.
func (t *traceResult) mark(at trace.Time) {
	taken := len(t.marking) + len(t.sweeping)
	for g := range t.assist {
		if t.running[g] {
			taken++
		}
	}
	share := max(0, 1-float64(taken)/float64(t.procs))
	if t.stopped > 0 {
		share = 0
	}
	if share != t.steps[len(t.steps)-1].share {
		t.steps = append(t.steps, step{at, share})
	}
}

// minimum returns the least mean utilisation over any window of length w. The
// worst window begins or ends at a step.
func (t *traceResult) minimum(w time.Duration) float64 {
	n := len(t.steps)
	area := make([]float64, n+1) // up to each step, and to the end
	ends := func(i int) trace.Time {
		if i+1 < n {
			return t.steps[i+1].at
		}
		return t.end
	}
	for i, s := range t.steps {
		area[i+1] = area[i] + s.share*float64(ends(i).Sub(s.at))
	}
	// upTo returns the area from the beginning to at, which must not decrease between calls.
	upTo := func() func(at trace.Time) float64 {
		i := 0
		return func(at trace.Time) float64 {
			for i+1 < n && t.steps[i+1].at <= at {
				i++
			}
			return area[i] + t.steps[i].share*float64(at.Sub(t.steps[i].at))
		}
	}
	least := 1.0
	// Windows that begin at a step, and those that end at one.
	for _, shift := range []time.Duration{0, w} {
		from, to := upTo(), upTo()
		for i := 0; i <= n; i++ {
			at := t.end
			if i < n {
				at = t.steps[i].at
			}
			begin := at - trace.Time(shift)
			end := begin + trace.Time(w)
			if begin < t.begin || end > t.end {
				continue
			}
			least = min(least, (to(end)-from(begin))/float64(w))
		}
	}
	return max(0, least)
}
