package admin

import (
	"math/bits"
	"sync/atomic"
	"time"

	"shuultuur/filter"
)

const (
	slotTime = 10 * time.Second
	slots    = 360 // an hour
	delays   = 32  // powers of two of microseconds
)

// Live counts the events of the last hour, for the graph of the start page.
// Adding takes no lock. Counts that are added in the very moment in which a slot
// is taken over from an hour ago may be lost: the record has them. The zero value
// is ready.
type Live struct{ slots [slots]slot }

type slot struct {
	at     atomic.Int64 // number of the slot since 1970
	counts [3][5]atomic.Uint32
	delays [delays]atomic.Uint32
}

// Add counts a transaction that is over at a time.
func (l *Live) Add(now time.Time, t *filter.Transaction) {
	n := now.UnixNano() / int64(slotTime)
	s := &l.slots[n%slots]
	if was := s.at.Load(); was != n && s.at.CompareAndSwap(was, n) {
		for p := range s.counts {
			for a := range s.counts[p] {
				s.counts[p][a].Store(0)
			}
		}
		for i := range s.delays {
			s.delays[i].Store(0)
		}
	}
	s.counts[t.Proto%3][t.Verdict.Action%5].Add(1)
	s.delays[min(bits.Len64(uint64(max(0, t.Duration.Microseconds()))), delays-1)].Add(1)
}

// A Moment has the counts of one interval.
type Moment struct {
	At     time.Time         `json:"at"`
	Counts map[string]uint32 `json:"counts,omitempty"` // by action
}

// A Recent is the last hour.
type Recent struct {
	Every    float64          `json:"every"` // seconds
	Moments  []Moment         `json:"moments"`
	Actions  map[string]int64 `json:"actions"`
	Requests int64            `json:"requests"` // HTTP and TLS
	Queries  int64            `json:"queries"`  // DNS
	// Half and Slow are times within which half, and 95 of 100, were over.
	Half time.Duration `json:"p50"`
	Slow time.Duration `json:"p95"`
}

// Recent returns the counts of the hour before now.
func (l *Live) Recent(now time.Time) *Recent {
	r := &Recent{Every: slotTime.Seconds(), Actions: map[string]int64{}}
	last := now.UnixNano() / int64(slotTime)
	var within [delays]int64
	all := int64(0)
	for n := last - slots + 1; n <= last; n++ {
		m := Moment{At: time.Unix(0, n*int64(slotTime)).UTC()}
		s := &l.slots[n%slots]
		if s.at.Load() == n {
			for p := range s.counts {
				for a := range s.counts[p] {
					c := s.counts[p][a].Load()
					if c == 0 {
						continue
					}
					if m.Counts == nil {
						m.Counts = map[string]uint32{}
					}
					m.Counts[filter.Action(a).String()] += c
					r.Actions[filter.Action(a).String()] += int64(c)
					if filter.Proto(p) == filter.DNS {
						r.Queries += int64(c)
					} else {
						r.Requests += int64(c)
					}
				}
			}
			for i := range within {
				c := int64(s.delays[i].Load())
				within[i] += c
				all += c
			}
		}
		r.Moments = append(r.Moments, m)
	}
	seen := int64(0)
	for i, c := range within {
		seen += c
		bound := time.Duration(1<<i) * time.Microsecond
		if r.Half == 0 && all > 0 && 2*seen >= all {
			r.Half = bound
		}
		if r.Slow == 0 && all > 0 && 100*seen >= 95*all {
			r.Slow = bound
		}
	}
	return r
}

// A bar is one rectangle of the graph, in a picture 360 wide and 100 high.
type bar struct {
	X, Y, W, H float64
	Action     string
}

// stacked are the actions in the order in which the graph stacks them.
var stacked = [...]filter.Action{filter.Pass, filter.Allow, filter.Warn, filter.Redirect, filter.Block}

// merged is how many slots one column of the graph shows.
const merged = 3

// bars returns the bars of the last hour; most is the value of the full height.
func (r *Recent) bars() (all []bar, most uint32) {
	var columns []map[string]uint32
	for i := 0; i < len(r.Moments); i += merged {
		sum, column := uint32(0), map[string]uint32{}
		for _, m := range r.Moments[i:min(i+merged, len(r.Moments))] {
			for a, n := range m.Counts {
				column[a] += n
				sum += n
			}
		}
		most = max(most, sum)
		columns = append(columns, column)
	}
	for i, column := range columns {
		y := 100.0
		for _, a := range stacked {
			if n := column[a.String()]; n > 0 {
				h := 100 * float64(n) / float64(most)
				y -= h
				all = append(all, bar{X: float64(i*merged) + .3, Y: y, W: merged - .6, H: h, Action: a.String()})
			}
		}
	}
	return all, most
}
