// Package metric counts events of the program, and shows the counts to Prometheus. It is a thin
// layer over Prometheus's own library.
//
// Each part of the program is a [Collector]; on each scrape it sends its counts as values of a
// [Desc]. [Handler] answers in the text format (version 0.0.4) unless another one is asked for.
// Counters with labels are a [CounterVec] or a [HistogramVec].
package metric

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/common/expfmt"
)

// The library's types.
type (
	Desc      = prometheus.Desc      // describes a metric
	Metric    = prometheus.Metric    // is a value sent by a collector
	Counter   = prometheus.Counter   // only grows
	Histogram = prometheus.Observer  // counts observations by their size
	Kind      = prometheus.ValueType // is how a value behaves over time
)

// The kinds of values.
const (
	Count = prometheus.CounterValue // only grows
	Gauge = prometheus.GaugeValue   // goes up and down
)

// NewDesc describes a metric. Names and labels consist of letters, digits and "_".
func NewDesc(name, help string, labels ...string) *Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

// A Bucket of a histogram counts all values up to Le.
type Bucket struct {
	Le    float64
	Count uint64
}

// New makes a value. values are those of the labels; a wrong number of them is a programming
// error.
func New(d *Desc, kind Kind, value float64, values ...string) Metric {
	return prometheus.MustNewConstMetric(d, kind, value, valid(values)...)
}

// NewHistogram makes a histogram of count observations with the given sum. Buckets are
// cumulative, and need not include all observations.
func NewHistogram(d *Desc, count uint64, sum float64, buckets []Bucket, values ...string) Metric {
	all := make(map[float64]uint64, len(buckets))
	for _, b := range buckets {
		all[b.Le] = b.Count
	}
	return prometheus.MustNewConstHistogram(d, count, sum, all, valid(values)...)
}

// valid returns values that the library takes: it refuses bytes that are no text.
func valid(values []string) []string {
	for i, v := range values {
		if clean := strings.ToValidUTF8(v, "\uFFFD"); clean != v {
			values = append([]string{}, values...)
			values[i] = clean
		}
	}
	return values
}

// A Collector sends its values. It need not know beforehand which they are.
type Collector interface {
	Collect(chan<- Metric)
}

// NewCounter makes a counter without labels.
func NewCounter(name, help string) Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
}

// A CounterVec counts by labels. Use labels with few values, because counters are never
// removed.
type CounterVec struct{ vec *prometheus.CounterVec }

// NewCounterVec makes counters with labels.
func NewCounterVec(name, help string, names ...string) *CounterVec {
	return &CounterVec{prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, names)}
}

// With returns the counter with these label values.
func (v *CounterVec) With(values ...string) Counter {
	if c, err := v.vec.GetMetricWithLabelValues(values...); err == nil {
		return c
	}
	return v.vec.WithLabelValues(valid(values)...)
}

// Collect implements [Collector].
func (v *CounterVec) Collect(ch chan<- Metric) { v.vec.Collect(ch) }

// A HistogramVec counts observations by labels and by their size.
type HistogramVec struct{ vec *prometheus.HistogramVec }

// NewHistogramVec makes histograms whose buckets end at the increasing bounds.
func NewHistogramVec(name, help string, bounds []float64, names ...string) *HistogramVec {
	return &HistogramVec{prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: bounds}, names)}
}

// With returns the histogram with these label values.
func (v *HistogramVec) With(values ...string) Histogram {
	if h, err := v.vec.GetMetricWithLabelValues(values...); err == nil {
		return h
	}
	return v.vec.WithLabelValues(valid(values)...)
}

// Collect implements [Collector].
func (v *HistogramVec) Collect(ch chan<- Metric) { v.vec.Collect(ch) }

// Doubling returns n bounds, each twice the previous.
func Doubling(first float64, n int) []float64 { return prometheus.ExponentialBuckets(first, 2, n) }

// together are collectors whose metrics are one answer. They are asked one after the other.
type together []Collector

// Describe says nothing: what is collected is checked when it is sent.
func (together) Describe(chan<- *Desc) {}

// Collect implements [Collector].
func (all together) Collect(ch chan<- Metric) {
	for _, c := range all {
		c.Collect(ch)
	}
}

func registry(all together) *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(all)
	return r
}

// Handler answers scrapes with the metrics of the collectors. Two values with the same name and
// labels are an error, and none is shown then.
func Handler(all ...Collector) http.Handler {
	h := promhttp.HandlerFor(registry(all), promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError})
	var gathering sync.Mutex
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t := &page{ResponseWriter: w, status: http.StatusOK}
		func() {
			gathering.Lock()
			defer gathering.Unlock()
			h.ServeHTTP(t, r)
		}()
		w.WriteHeader(t.status)
		_, _ = w.Write(t.text.Bytes())
	})
}

// Write writes the metrics of the collectors as text, sorted by name and labels. Two values with
// the same name and labels are an error, and nothing is written then.
func Write(w io.Writer, all ...Collector) error {
	families, err := registry(all).Gather()
	if err != nil {
		return fmt.Errorf("collect metrics: %w", err)
	}
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(w, f); err != nil {
			return err
		}
	}
	return nil
}

// A page is what is shown, while it is made. It is sent when nothing else of it is in memory any more:
// the text is a small part of what is gathered, which would be kept for as long as somebody does not read.
type page struct {
	http.ResponseWriter
	status int
	text   bytes.Buffer
}

func (p *page) WriteHeader(status int)      { p.status = status }
func (p *page) Write(b []byte) (int, error) { return p.text.Write(b) }
