// Package metric counts events of the program and writes the counts in the text format of
// Prometheus (version 0.0.4).
//
// Each part of the program is a [Collector]; on each scrape it sends its counts as values of a
// [Desc]. [Handler] calls all collectors and writes the values sorted by name. Counters with
// labels are a [CounterVec] or a [HistogramVec].
//
// The usual client library is not used: it brings protobuf and its reflection, 1.4 MB of the
// program, for a format that fits on a page.
package metric

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

// A Kind is how a value behaves over time.
type Kind uint8

// The kinds of values.
const (
	Count Kind = iota // only grows
	Gauge             // goes up and down
	histogram
)

var kinds = [...]string{"counter", "gauge", "histogram"}

// A Desc describes a metric.
type Desc struct {
	name, help string
	labels     []string
	order      []int // indexes of labels, sorted by name
}

// NewDesc describes a metric. Names and labels consist of letters, digits and "_".
func NewDesc(name, help string, labels ...string) *Desc {
	if len(labels) > maxLabels {
		panic(fmt.Sprintf("metric %s has %d labels; at most %d are possible", name, len(labels), maxLabels))
	}
	d := &Desc{name: name, help: help, labels: labels, order: make([]int, len(labels))}
	for i := range d.order {
		d.order[i] = i
	}
	sort.Slice(d.order, func(i, j int) bool { return labels[d.order[i]] < labels[d.order[j]] })
	return d
}

// maxLabels bounds the labels of a metric.
const maxLabels = 8

// labels are the values of a Desc's labels, in order.
type labels [maxLabels]string

// A Metric is a value sent by a collector.
type Metric struct {
	desc    *Desc
	kind    Kind
	labels  labels
	value   float64
	buckets []Bucket // of a histogram, whose sum is value
	count   uint64
}

// A Bucket of a histogram counts all values up to Le.
type Bucket struct {
	Le    float64
	Count uint64
}

// New makes a value. values are those of the labels.
func New(d *Desc, kind Kind, value float64, values ...string) Metric {
	return Metric{desc: d, kind: kind, value: value, labels: d.with(values)}
}

// NewHistogram makes a histogram of count observations with the given sum. Buckets are
// cumulative, and need not include all observations.
func NewHistogram(d *Desc, count uint64, sum float64, buckets []Bucket, values ...string) Metric {
	return Metric{desc: d, kind: histogram, value: sum, count: count, buckets: buckets, labels: d.with(values)}
}

// with returns the label values. A wrong number of them is a programming error.
func (d *Desc) with(values []string) (l labels) {
	if len(values) != len(d.labels) {
		panic(fmt.Sprintf("metric %s has %d labels but got %d values", d.name, len(d.labels), len(values)))
	}
	copy(l[:], values)
	return l
}

// A Collector sends its values.
type Collector interface {
	Collect(chan<- Metric)
}

// A Counter only grows. It is a [Collector], and safe for concurrent use.
type Counter struct {
	desc   *Desc
	labels labels
	n      atomic.Uint64
}

// NewCounter makes a counter without labels.
func NewCounter(name, help string) *Counter { return &Counter{desc: NewDesc(name, help)} }

// Inc adds 1.
func (c *Counter) Inc() { c.n.Add(1) }

// Add adds n.
func (c *Counter) Add(n uint64) { c.n.Add(n) }

// Value returns the count.
func (c *Counter) Value() uint64 { return c.n.Load() }

// Collect implements [Collector].
func (c *Counter) Collect(ch chan<- Metric) {
	ch <- Metric{desc: c.desc, kind: Count, labels: c.labels, value: float64(c.n.Load())}
}

// series holds the values of one Desc, by labels.
type series[T any] struct {
	desc *Desc
	mu   sync.RWMutex
	all  map[labels]*T
}

// with returns the value with these labels, and creates it if needed.
func (s *series[T]) with(values []string, make func(labels) *T) *T {
	l := s.desc.with(values)
	s.mu.RLock()
	v := s.all[l]
	s.mu.RUnlock()
	if v != nil {
		return v
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if v = s.all[l]; v == nil {
		v = make(l)
		s.all[l] = v
	}
	return v
}

func (s *series[T]) each(f func(*T)) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, v := range s.all {
		f(v)
	}
}

// A CounterVec counts by labels. Use labels with few values, because counters are never
// removed.
type CounterVec struct{ series[Counter] }

// NewCounterVec makes counters with labels.
func NewCounterVec(name, help string, names ...string) *CounterVec {
	return &CounterVec{series[Counter]{desc: NewDesc(name, help, names...), all: map[labels]*Counter{}}}
}

// With returns the counter with these label values.
func (v *CounterVec) With(values ...string) *Counter {
	return v.with(values, func(l labels) *Counter { return &Counter{desc: v.desc, labels: l} })
}

// Collect implements [Collector].
func (v *CounterVec) Collect(ch chan<- Metric) { v.each(func(c *Counter) { c.Collect(ch) }) }

// A Histogram counts observations by their size.
type Histogram struct {
	labels labels
	bounds []float64
	counts []atomic.Uint64 // one more than bounds
	sum    atomic.Uint64   // bits of a float64
}

// Observe adds an observation.
func (h *Histogram) Observe(x float64) {
	i, _ := slices.BinarySearch(h.bounds, x)
	h.counts[i].Add(1)
	for {
		was := h.sum.Load()
		if h.sum.CompareAndSwap(was, math.Float64bits(math.Float64frombits(was)+x)) {
			return
		}
	}
}

// A HistogramVec counts observations by labels and by their size.
type HistogramVec struct {
	series[Histogram]
	bounds []float64
}

// NewHistogramVec makes histograms whose buckets end at the increasing bounds.
func NewHistogramVec(name, help string, bounds []float64, names ...string) *HistogramVec {
	return &HistogramVec{series[Histogram]{desc: NewDesc(name, help, names...), all: map[labels]*Histogram{}}, bounds}
}

// With returns the histogram with these label values.
func (v *HistogramVec) With(values ...string) *Histogram {
	return v.with(values, func(l labels) *Histogram {
		return &Histogram{labels: l, bounds: v.bounds, counts: make([]atomic.Uint64, len(v.bounds)+1)}
	})
}

// Collect implements [Collector].
func (v *HistogramVec) Collect(ch chan<- Metric) {
	v.each(func(h *Histogram) {
		m := Metric{desc: v.desc, kind: histogram, labels: h.labels, value: math.Float64frombits(h.sum.Load()), buckets: make([]Bucket, len(h.bounds))}
		for i := range h.counts {
			m.count += h.counts[i].Load()
			if i < len(h.bounds) {
				m.buckets[i] = Bucket{h.bounds[i], m.count}
			}
		}
		ch <- m
	})
}

// Doubling returns n bounds, each twice the previous.
func Doubling(first float64, n int) []float64 {
	all := make([]float64, n)
	for i := range all {
		all[i] = math.Ldexp(first, i)
	}
	return all
}

// Handler answers scrapes with the metrics of the collectors.
func Handler(all ...Collector) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		if err := Write(w, all...); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
}

// Write writes the metrics of the collectors, sorted by name and labels. Two values with the
// same name and labels are an error, and nothing is written then.
func Write(w io.Writer, all ...Collector) error {
	ch := make(chan Metric, 64)
	go func() {
		defer close(ch)
		for _, c := range all {
			c.Collect(ch)
		}
	}()
	var got []Metric
	for m := range ch {
		got = append(got, m)
	}
	sort.Slice(got, func(i, j int) bool {
		a, b := &got[i], &got[j]
		if a.desc.name != b.desc.name {
			return a.desc.name < b.desc.name
		}
		return slices.Compare(a.labels[:], b.labels[:]) < 0
	})
	for i := range got {
		if i > 0 && got[i].desc.name == got[i-1].desc.name && got[i].labels == got[i-1].labels {
			return fmt.Errorf("metric %s has two values for the labels %q", got[i].desc.name, got[i].labels[:len(got[i].desc.labels)])
		}
	}
	out := bufio.NewWriter(w)
	last := ""
	for i := range got {
		m := &got[i]
		if m.desc.name != last {
			last = m.desc.name
			fmt.Fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", last, helpEscapes.Replace(m.desc.help), last, kinds[m.kind])
		}
		m.write(out)
	}
	return out.Flush()
}

var (
	helpEscapes  = strings.NewReplacer(`\`, `\\`, "\n", `\n`)
	labelEscapes = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)
)

func (m *Metric) write(w *bufio.Writer) {
	if m.kind != histogram {
		m.line(w, "", "", m.value)
		return
	}
	for _, b := range m.buckets {
		m.line(w, "_bucket", number(b.Le), float64(b.Count))
	}
	m.line(w, "_bucket", "+Inf", float64(m.count))
	m.line(w, "_sum", "", m.value)
	m.line(w, "_count", "", float64(m.count))
}

// line writes one value.
func (m *Metric) line(w *bufio.Writer, suffix, le string, value float64) {
	_, _ = w.WriteString(m.desc.name) // Flush reports errors
	_, _ = w.WriteString(suffix)
	mark := byte('{')
	label := func(name, value string) {
		_ = w.WriteByte(mark)
		mark = ','
		_, _ = w.WriteString(name + `="`)
		_, _ = labelEscapes.WriteString(w, strings.ToValidUTF8(value, "\uFFFD"))
		_ = w.WriteByte('"')
	}
	for _, i := range m.desc.order {
		label(m.desc.labels[i], m.labels[i])
	}
	if le != "" {
		label("le", le)
	}
	if mark == ',' {
		_ = w.WriteByte('}')
	}
	_, _ = w.WriteString(" " + number(value) + "\n")
}

func number(x float64) string {
	if math.IsInf(x, 1) {
		return "+Inf"
	}
	return strconv.FormatFloat(x, 'g', -1, 64)
}
