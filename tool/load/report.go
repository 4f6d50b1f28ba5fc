package load

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Report has the measurements of a run. It is also the JSON format, which is stable: keys may
// be added, but do not change their meaning. Times are in milliseconds unless the name says
// seconds.
type Report struct {
	Started    time.Time `json:"started"`
	Loop       string    `json:"loop"`    // closed, open or batch
	Load       float64   `json:"load"`    // parallel, rate per second or batch size
	Seconds    float64   `json:"seconds"` // without the time to close connections
	CPUSeconds float64   `json:"cpu_seconds"`

	Fetches     int64 `json:"fetches"`      // answered completely, with any code
	Bytes       int64 `json:"bytes"`        // of bodies
	MaxParallel int64 `json:"max_parallel"` // maximum of concurrent fetches
	Connections int64 `json:"connections"`  // attempted
	Reconnects  int64 `json:"reconnects"`   // kept-alive connections that turned out to be closed
	Unfinished  int64 `json:"unfinished"`   // in flight when the run ended
	Unsent      int64 `json:"unsent"`       // open loop: due but not sent

	Checksum  bool              `json:"checksum"`
	BadBodies int64             `json:"bad_bodies"` // bodies that differ from the first one of their URL
	Codes     map[int]int64     `json:"codes"`
	Errors    map[string]int64  `json:"errors"`   // by class
	Examples  map[string]string `json:"examples"` // first error of each class, if there is a text

	Connect   Latency `json:"connect"`
	TLS       Latency `json:"tls"`
	FirstByte Latency `json:"first_byte"` // from the written request to the first byte of the response
	Total     Latency `json:"total"`      // from the beginning, including connecting, to the last byte
	Good      Latency `json:"good"`       // total of responses without an error: not 4xx or 5xx
	Intended  Latency `json:"intended"`   // open loop: from the intended time of sending
	Batch     Latency `json:"batch"`      // from the first request of a batch to the last response

	Series []Point `json:"series"`
}

// Latency is one distribution, in milliseconds.
type Latency struct {
	Count   int64    `json:"count"`
	Mean    float64  `json:"mean"`
	Min     float64  `json:"min"`
	P50     float64  `json:"p50"`
	P90     float64  `json:"p90"`
	P99     float64  `json:"p99"`
	P999    float64  `json:"p999"`
	Max     float64  `json:"max"`
	Buckets []Bucket `json:"buckets,omitempty"`
}

// Bucket counts values up to UpTo milliseconds and above the previous bucket. There are ten
// buckets per factor of ten.
type Bucket struct {
	UpTo  float64 `json:"up_to"`
	Count int64   `json:"count"`
}

// Point is one interval of a run. Latencies count from the intended times of sending.
type Point struct {
	At      float64 `json:"at"` // seconds since the start, at the interval's end
	Fetches int64   `json:"fetches"`
	Errors  int64   `json:"errors"`
	P50     float64 `json:"p50"`
	P99     float64 `json:"p99"`
	Max     float64 `json:"max"`
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func quantile(h *hdrhistogram.Histogram, percent float64) float64 {
	return float64(h.ValueAtPercentile(percent)) / 1000
}

func (d *dist) latency() Latency {
	if d.n == 0 {
		return Latency{}
	}
	l := Latency{
		Count: d.n, Mean: ms(d.sum) / float64(d.n), Min: ms(d.min), Max: ms(d.max),
		P50: quantile(d.hist, 50), P90: quantile(d.hist, 90), P99: quantile(d.hist, 99), P999: quantile(d.hist, 99.9),
	}
	steps := bucketSteps()
	at := 0
	for _, bar := range d.hist.Distribution() {
		if bar.Count == 0 {
			continue
		}
		for at < len(steps)-1 && float64(bar.From)/1000 > steps[at] {
			at++
		}
		if n := len(l.Buckets); n > 0 && l.Buckets[n-1].UpTo == steps[at] {
			l.Buckets[n-1].Count += bar.Count
			continue
		}
		l.Buckets = append(l.Buckets, Bucket{steps[at], bar.Count})
	}
	return l
}

// bucketSteps returns the upper ends of the buckets, from 10 µs to more than an hour, as round
// numbers.
func bucketSteps() []float64 {
	var steps []float64
	for decade := 0.01; decade < 1e7; decade *= 10 {
		for _, s := range []float64{1, 1.25, 1.6, 2, 2.5, 3.2, 4, 5, 6.3, 8} {
			// Rounded, so that 0.1 × 3 does not become 0.30000000000000004.
			steps = append(steps, float64(int64(decade*s*1e6+0.5))/1e6)
		}
	}
	return steps
}

func (g *Generator) report(start time.Time, took, cpu time.Duration, w *watch) *Report {
	all := g.sum()
	r := &Report{
		Started: start.UTC().Truncate(time.Second), Seconds: took.Seconds(), CPUSeconds: cpu.Seconds(),
		Fetches: all.fetches, Bytes: all.bytes, MaxParallel: g.most.Load(),
		Connections: all.fresh, Reconnects: all.retried, Unfinished: g.dropped.Load(), Unsent: g.unsent.Load(),
		Checksum: g.cfg.Checksum, BadBodies: all.changed,
		Codes: map[int]int64{}, Errors: map[string]int64{}, Examples: map[string]string{},
		Connect: all.dists[distConnect].latency(), TLS: all.dists[distTLS].latency(),
		FirstByte: all.dists[distFirst].latency(), Total: all.dists[distTotal].latency(), Good: all.dists[distGood].latency(),
		Batch: all.dists[distBatch].latency(), Series: w.series,
	}
	switch {
	case g.cfg.Parallel > 0:
		r.Loop, r.Load = "closed", float64(g.cfg.Parallel)
	case g.cfg.Rate > 0:
		r.Loop, r.Load = "open", g.cfg.Rate
		r.Intended = all.dists[distIntended].latency()
	default:
		r.Loop, r.Load = "batch", float64(g.cfg.Batch)
	}
	for code, n := range all.codes {
		if n > 0 {
			r.Codes[code] = n
		}
	}
	for c, n := range all.errors {
		if n > 0 && class(c) != ok {
			r.Errors[classNames[c]] = n
			if err := all.example[c]; err != nil {
				r.Examples[classNames[c]] = err.Error()
			}
		}
	}
	return r
}

// HTTPLoad writes the report in the format of http_load, line for line.
func (r *Report) HTTPLoad(w io.Writer) error {
	p := printer{w: w}
	p.f("%d fetches, %d max parallel, %.6g bytes, in %.6g seconds\n", r.Fetches, r.MaxParallel, float64(r.Bytes), r.Seconds)
	if r.Fetches > 0 {
		p.f("%.6g mean bytes/connection\n", float64(r.Bytes)/float64(r.Fetches))
	}
	if r.Seconds > 0.01 {
		p.f("%.6g fetches/sec, %.6g bytes/sec\n", float64(r.Fetches)/r.Seconds, float64(r.Bytes)/r.Seconds)
	}
	for _, l := range []struct {
		name string
		Latency
	}{{"connect", r.Connect}, {"first-response", r.FirstByte}} {
		if l.Count > 0 {
			p.f("msecs/%s: %.6g mean, %.6g max, %.6g min\n", l.name, l.Mean, l.Max, l.Min)
		}
	}
	if n := r.Errors[classNames[timeout]]; n > 0 {
		p.f("%d timeouts\n", n)
	}
	if r.BadBodies > 0 && r.Checksum {
		p.f("%d bad checksums\n", r.BadBodies)
	} else if r.BadBodies > 0 {
		p.f("%d bad byte counts\n", r.BadBodies)
	}
	p.f("HTTP response codes:\n")
	for _, code := range sortedKeys(r.Codes) {
		p.f("  code %03d -- %d\n", code, r.Codes[code])
	}
	return p.err
}

// Text writes http_load's report, followed by values that http_load does not
// measure.
func (r *Report) Text(w io.Writer) error {
	if err := r.HTTPLoad(w); err != nil {
		return err
	}
	p := printer{w: w}
	p.f("\n%-28s%9s%10s%10s%10s%10s%10s%10s%10s\n", "msecs", "count", "mean", "min", "p50", "p90", "p99", "p99.9", "max")
	for _, row := range r.rows() {
		l := row.Latency
		p.f("%-28s%9d", row.name, l.Count)
		for _, v := range []float64{l.Mean, l.Min, l.P50, l.P90, l.P99, l.P999, l.Max} {
			p.f("%10.3f", v)
		}
		p.f("\n")
	}
	p.f("\nerrors: ")
	if len(r.Errors) == 0 {
		p.f("none")
	}
	for i, c := range sortedKeys(r.Errors) {
		if i > 0 {
			p.f(", ")
		}
		p.f("%d %s", r.Errors[c], c)
	}
	for _, c := range sortedKeys(r.Examples) {
		p.f("\n  %s: %s", c, r.Examples[c])
	}
	p.f("\nconnections: %d tried, %d found closed and asked again\n", r.Connections, r.Reconnects)
	if r.Unfinished > 0 {
		p.f("unfinished at the end: %d\n", r.Unfinished)
	}
	if r.Unsent > 0 {
		p.f("due and never sent: %d (all %d in flight were waiting)\n", r.Unsent, r.MaxParallel)
	}
	p.f("generator: %.3g s of CPU", r.CPUSeconds)
	if r.Fetches > 0 {
		p.f(", %.3g µs/fetch", r.CPUSeconds*1e6/float64(r.Fetches))
	}
	p.f("\n")
	return p.err
}

type row struct {
	name string
	Latency
}

// rows returns the distributions that have values, in chronological order.
func (r *Report) rows() []row {
	rows := []row{
		{"connect", r.Connect}, {"TLS handshake", r.TLS}, {"first byte", r.FirstByte},
		{"total", r.Total}, {"total from intended send", r.Intended}, {"batch", r.Batch},
	}
	return slices.DeleteFunc(rows, func(r row) bool { return r.Count == 0 })
}

// JSON writes the report for machines.
func (r *Report) JSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", " ")
	return e.Encode(r)
}

// ReadReport reads a report written by JSON. name is for error messages.
func ReadReport(rd io.Reader, name string) (*Report, error) {
	r := &Report{}
	if err := json.NewDecoder(io.LimitReader(rd, 64<<20)).Decode(r); err != nil {
		return nil, fmt.Errorf("reading report %q: %w", name, err)
	}
	if r.Loop == "" {
		return nil, fmt.Errorf("reading report %q: it is JSON but not a report of load http", name)
	}
	return r, nil
}

// printer keeps the first error of several writes.
type printer struct {
	w   io.Writer
	err error
}

func (p *printer) f(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format, args...)
	}
}

func sortedKeys[K int | string, V any](m map[K]V) []K {
	keys := make([]K, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
