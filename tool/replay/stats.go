package replay

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"iter"
	"maps"
	"math"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"shuultuur/whatif"
)

// Stats describes the content of a log. It is also the JSON form, which is stable: keys may be
// added, but do not change their meaning.
type Stats struct {
	Input whatif.Input `json:"input"`

	First time.Time `json:"first"` // start of the earliest request
	Last  time.Time `json:"last"`
	Bytes int64     `json:"bytes"` // to clients, as the log counts them

	URLs   int64   `json:"urls"`    // distinct; for tunnels, host and port count as one
	OneHit int64   `json:"one_hit"` // URLs requested once
	Zipf   float64 `json:"zipf"`    // exponent s of requests ~ rank^-s
	R2     float64 `json:"r2"`      // quality of that fit, 0 to 1

	Hosts []HostCount `json:"hosts"` // most frequent first
	// HostsLow is by how much the counts of hosts may be too low, because there were more
	// hosts than memory for them.
	HostsLow int64 `json:"hosts_low"`

	Runs int `json:"runs"` // sorted runs written to disk
}

// HostCount is a host and the number of its requests.
type HostCount struct {
	Host     string `json:"host"`
	Requests int64  `json:"requests"`
}

// topHosts is the number of hosts in a report.
const topHosts = 20

// MinMemory is the least memory of a Counter.
const MinMemory = 1 << 20

// Counter counts the content of a log in limited memory.
type Counter struct {
	memory int // bytes
	tmp    string

	requests        atomic.Int64
	merged, toMerge atomic.Int64
}

// NewCounter returns a counter that uses about memory bytes, and more on disk: up to 18 bytes
// per distinct URL, twice that while it merges, in a folder made in tmp ("" for the system's).
func NewCounter(memory int, tmp string) (*Counter, error) {
	if memory < MinMemory {
		return nil, fmt.Errorf("%d bytes of memory are too few: at least %d MiB", memory, MinMemory>>20)
	}
	return &Counter{memory: memory, tmp: tmp}, nil
}

// Progress returns how many requests were counted, and how many sorted records were merged, of
// how many. It is safe for concurrent use.
func (c *Counter) Progress() (requests, merged, toMerge int64) {
	return c.requests.Load(), c.merged.Load(), c.toMerge.Load()
}

// Count reads all entries. Its files on disk are removed when it returns.
func (c *Counter) Count(ctx context.Context, entries iter.Seq2[whatif.Entry, error]) (s *Stats, err error) {
	dir, err := os.MkdirTemp(c.tmp, "shuultuur-replay-")
	if err != nil {
		return nil, fmt.Errorf("making a folder for sorted runs: %w", err)
	}
	defer func() {
		if e := os.RemoveAll(dir); err == nil && e != nil {
			err = fmt.Errorf("removing the sorted runs: %w", e)
		}
	}()
	// The rest is for the overhead of maps, and for garbage.
	urls := newTally(dir, c.memory/3)
	urls.merged, urls.toMerge = &c.merged, &c.toMerge
	hosts := newNames(c.memory / 8)
	s = &Stats{}
	for e, err := range entries {
		if err != nil {
			return nil, err
		}
		if err := urls.add(e.Target()); err != nil {
			return nil, err
		}
		hosts.add(e.Host)
		s.Bytes += e.Bytes
		if s.First.IsZero() || e.Start.Before(s.First) {
			s.First = e.Start
		}
		if e.Start.After(s.Last) {
			s.Last = e.Start
		}
		c.requests.Add(1)
	}
	s.Hosts, s.HostsLow = hosts.top(topHosts), hosts.lost
	of := map[uint64]int64{}
	if err := urls.counts(ctx, func(n uint64) { of[n]++ }); err != nil {
		return nil, err
	}
	s.Runs = urls.created
	s.OneHit = of[1]
	s.URLs, s.Zipf, s.R2 = fitZipf(of)
	return s, nil
}

// fitZipf takes the number of URLs by number of requests, and fits a line to the logarithms of
// rank and requests by least squares, with equal weight for each rank.
func fitZipf(of map[uint64]int64) (urls int64, exponent, r2 float64) {
	var sx, sy, sxx, sxy, syy float64
	for _, n := range slices.Backward(slices.Sorted(maps.Keys(of))) {
		y := math.Log(float64(n))
		for range of[n] {
			urls++
			x := math.Log(float64(urls))
			sx, sy = sx+x, sy+y
			sxx, sxy, syy = sxx+x*x, sxy+x*y, syy+y*y
		}
	}
	n := float64(urls)
	vx, vy, cov := n*sxx-sx*sx, n*syy-sy*sy, n*sxy-sx*sy
	// Less is due to rounding: all URLs were requested equally often.
	const tiny = 1e-9
	if vx <= tiny*n*n || vy <= tiny*n*n {
		return urls, 0, 0
	}
	return urls, -cov / vx, cov * cov / (vx * vy)
}

func (c *names) top(k int) []HostCount {
	all := make([]HostCount, 0, len(c.counts))
	for name, n := range c.counts {
		all = append(all, HostCount{name, n})
	}
	slices.SortStableFunc(all, func(a, b HostCount) int {
		return cmp.Or(cmp.Compare(b.Requests, a.Requests), cmp.Compare(a.Host, b.Host))
	})
	return slices.Clone(all[:min(k, len(all))])
}

// Text writes the figures for people.
func (s *Stats) Text(w io.Writer) error {
	p := whatif.Printer{W: w}
	s.Input.Text(&p)
	n := s.Input.Requests
	p.F("requests       %d\n", n)
	if n == 0 {
		return p.Err
	}
	p.F("bytes          %d\n", s.Bytes)
	span := s.Last.Sub(s.First)
	p.F("time           %s to %s, %s", s.First.UTC().Format(time.DateTime), s.Last.UTC().Format(time.DateTime), seconds(span.Seconds()))
	if span > 0 {
		p.F(", %.4g requests/sec", float64(n)/span.Seconds())
	}
	p.F("\ndistinct URLs  %d, %.1f %% of requests\n", s.URLs, percent(s.URLs, n))
	p.F("one-hit URLs   %d, %.1f %% of URLs, %.1f %% of requests\n", s.OneHit, percent(s.OneHit, s.URLs), percent(s.OneHit, n))
	p.F("Zipf           requests ~ rank^-%.3f, R² %.3f\n", s.Zipf, s.R2)
	p.F("top hosts\n")
	for _, h := range s.Hosts {
		p.F("%14d  %5.1f %%  %s\n", h.Requests, percent(h.Requests, n), whatif.Printable(h.Host))
	}
	if s.HostsLow > 0 {
		p.F("  counts of hosts may be up to %d too low; more -memory makes them exact\n", s.HostsLow)
	}
	return p.Err
}

func percent(a, of int64) float64 { return 100 * float64(a) / float64(max(1, of)) }

// JSON writes the figures for machines.
func (s *Stats) JSON(w io.Writer) error { return whatif.WriteJSON(w, s) }
