// Package simulate computes how a cache would have handled the requests in a log: how many it
// would have answered, and how much it would have written to a disk, by admission policy and
// size.
//
// [Read] extracts the requests from a log in any of the usual formats (log.go) and gives each
// object a number; data that does not fit into memory goes to files (number.go). [Run] sends
// the numbers through a model of the cache ([admission.Model], whose steps the cache itself
// follows) and through a plain LRU, for each size. [Report] has the results with recommended
// settings, and writes itself as a table, JSON or an HTML page.
package simulate

import (
	"context"
	"fmt"

	"shuultuur/cache/admission"
)

// Options configure a simulation. The zero value means the defaults.
type Options struct {
	// Shares are the sizes to simulate, relative to all requested bytes. Default 0.005, 0.01,
	// 0.02, 0.05, 0.1, 0.25.
	Shares []float64
	// Sizes are sizes in bytes, instead of Shares.
	Sizes []int64
	// Policies are the admission policies; default all.
	Policies []string
	// Temp is the folder for temporary files; default the system's.
	Temp string
	// Base is the URL that is put before paths without a host.
	Base string
}

// memoryShare is the share of memory in a simulated cache, in per cent, and leastMemory its
// minimum, because every machine has that much.
const (
	memoryShare = 30
	leastMemory = 4 << 20
)

// A Result is the result for a cache of one size and policy.
type Result struct {
	Policy string `json:"policy"` // "lru" for a single LRU on a disk
	Size   int64  `json:"size"`   // bytes, including memory
	Memory int64  `json:"memory"` // bytes of memory
	// Hits and HitBytes are shares of the requests and of their bytes.
	Hits     float64 `json:"hits"`
	HitBytes float64 `json:"hit_bytes"`
	// Writes and WrittenBytes were written to the disk.
	Writes       int64 `json:"writes"`
	WrittenBytes int64 `json:"written_bytes"`
	// OfLRU is the ratio of Writes to those of LRU at the same size.
	OfLRU float64 `json:"writes_of_lru"`
}

// A Report is the result of a simulation.
type Report struct {
	Requests  int64    `json:"requests"`
	Bytes     int64    `json:"bytes"`            // of all requests
	Objects   int64    `json:"objects"`          // different objects
	Footprint int64    `json:"footprint"`        // bytes of different objects
	Once      float64  `json:"once"`             // share of objects that were requested once
	Skipped   int64    `json:"skipped"`          // lines without a request that a cache could answer
	Broken    string   `json:"broken,omitempty"` // why the log could not be read to its end
	Results   []Result `json:"results"`
	// Advice has the recommended settings.
	Advice Advice `json:"advice"`
}

// Advice has recommended settings, and the reason.
type Advice struct {
	Memory    int64  `json:"memory"`
	Disk      int64  `json:"disk"`
	Admission string `json:"admission"`
	Why       string `json:"why"`
}

// Run simulates every policy at every size.
func Run(ctx context.Context, t *Trace, o Options) (*Report, error) {
	r := &Report{Requests: t.Requests, Bytes: t.Bytes, Objects: t.Objects, Footprint: t.Footprint, Skipped: t.Skipped, Broken: t.Broken}
	if t.Requests == 0 {
		return r, fmt.Errorf("the log contains no requests that a cache could answer; %d lines were skipped", t.Skipped)
	}
	r.Once = float64(t.once) / float64(t.Objects)
	sizes := o.Sizes
	if len(sizes) == 0 {
		shares := o.Shares
		if len(shares) == 0 {
			shares = []float64{0.005, 0.01, 0.02, 0.05, 0.1, 0.25}
		}
		for _, s := range shares {
			sizes = append(sizes, max(1, int64(s*float64(t.Footprint))))
		}
	}
	policies := o.Policies
	if len(policies) == 0 {
		policies = admission.Names()
	}
	for _, size := range sizes {
		base, err := lru(ctx, t, size)
		if err != nil {
			return nil, err
		}
		base.OfLRU = 1
		r.Results = append(r.Results, base)
		for _, name := range policies {
			one, err := model(ctx, t, name, size)
			if err != nil {
				return nil, err
			}
			if base.Writes > 0 {
				one.OfLRU = float64(one.Writes) / float64(base.Writes)
			}
			r.Results = append(r.Results, one)
		}
	}
	r.advise()
	return r, nil
}

// key hashes the number of an object.
func key(id uint32) admission.Key {
	return admission.Key{Lo: (uint64(id) + 1) * 0x9E3779B97F4A7C15, Hi: (uint64(id) + 1) * 0xC2B2AE3D27D4EB4F}
}

// model simulates the cache's own policy.
func model(ctx context.Context, t *Trace, name string, size int64) (Result, error) {
	memory := min(size, max(leastMemory, size*memoryShare/100))
	window := int(min(max(2*size*t.Objects/max(t.Footprint, 1), 1000), 50_000_000))
	p, err := admission.New(name, window)
	if err != nil {
		return Result{}, err
	}
	m := admission.NewModel(admission.Sizes{Memory: memory, Disk: size - memory}, p, window)
	err = t.eachRequest(ctx, func(id uint32, size int64) { m.Request(key(id), size) })
	return Result{Policy: name, Size: size, Memory: memory, Hits: ratio(m.Hits, m.Misses), HitBytes: ratio(m.HitBytes, m.MissBytes), Writes: m.Writes, WrittenBytes: m.WriteBytes}, err
}

func ratio(yes, no int64) float64 {
	if yes+no == 0 {
		return 0
	}
	return float64(yes) / float64(yes+no)
}

// lru simulates a plain LRU that writes every object. It is exact: a list of all objects, 12
// bytes each.
func lru(ctx context.Context, t *Trace, size int64) (Result, error) {
	n := uint32(t.Objects)
	const gone = ^uint32(0)
	next, prev := make([]uint32, n+1), make([]uint32, n+1) // of a ring that begins at n
	sizes := make([]uint32, n)
	for i := range next[:n] {
		next[i] = gone
	}
	next[n], prev[n] = n, n
	r := Result{Policy: "lru", Size: size}
	var hits, misses, hitBytes, missBytes, used int64
	unlink := func(i uint32) { next[prev[i]], prev[next[i]] = next[i], prev[i] }
	push := func(i uint32) {
		next[i], prev[i] = next[n], n
		prev[next[i]], next[n] = i, i
	}
	err := t.eachRequest(ctx, func(id uint32, length int64) {
		if next[id] != gone {
			hits++
			hitBytes += length
			unlink(id)
			push(id)
			return
		}
		misses++
		missBytes += length
		if length > size {
			return
		}
		r.Writes++
		r.WrittenBytes += length
		sizes[id] = uint32(min(length, 1<<32-1))
		push(id)
		for used += int64(sizes[id]); used > size; {
			old := prev[n]
			unlink(old)
			next[old] = gone
			used -= int64(sizes[old])
		}
	})
	r.Hits, r.HitBytes = ratio(hits, misses), ratio(hitBytes, missBytes)
	return r, err
}

// advise recommends the smallest cache with nine tenths of the hits of the largest one, with
// the policy that is best there. Among policies with similar hits, fewer writes win.
func (r *Report) advise() {
	best := 0.0
	for _, x := range r.Results {
		if x.Policy != "lru" {
			best = max(best, x.Hits)
		}
	}
	var pick *Result
	for i := range r.Results {
		x := &r.Results[i]
		if x.Policy == "lru" || x.Hits < 0.9*best {
			continue
		}
		switch {
		case pick == nil, x.Size == pick.Size && (x.Hits > pick.Hits+0.01 || x.Hits > pick.Hits-0.01 && x.Writes < pick.Writes):
			pick = x
		case x.Size > pick.Size:
			r.Advice = pick.advice()
			return
		}
	}
	if pick != nil {
		r.Advice = pick.advice()
	}
}

func (x *Result) advice() Advice {
	const step = 16 << 20
	up := func(n, least int64) int64 {
		if n == 0 {
			return 0
		}
		return max(least, (n+step-1)/step*step)
	}
	a := Advice{Memory: up(x.Memory, 64<<20), Disk: up(x.Size-x.Memory, 64<<20), Admission: x.Policy}
	if a.Disk > 0 && a.Disk < 4*a.Memory { // so little is better kept in memory
		a.Memory, a.Disk = a.Memory+a.Disk, 0
	}
	a.Why = fmt.Sprintf("the smallest size with nine tenths of the hits of the largest: %.1f %% of requests, %.1f %% of bytes", 100*x.Hits, 100*x.HitBytes)
	return a
}
