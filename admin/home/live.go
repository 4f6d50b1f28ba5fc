package home

import (
	"math/bits"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"shuultuur/admin/web"
	"shuultuur/filter"
	"shuultuur/text"
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

	durations durations
}

// durations counts how often something took less than each power of two of microseconds.
type durations [delays]int64

func (d *durations) add(e *durations) {
	for i, n := range e {
		d[i] += n
	}
}

// percentile returns a time within which so many of a hundred were over, or 0 if none was.
func (d *durations) percentile(percent int64) time.Duration {
	all, seen := int64(0), int64(0)
	for _, n := range d {
		all += n
	}
	for i, n := range d {
		if seen += n; all > 0 && 100*seen >= percent*all {
			return time.Duration(1<<i) * time.Microsecond
		}
	}
	return 0
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
	var all durations
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
			for i := range m.durations {
				m.durations[i] = int64(s.delays[i].Load())
			}
			all.add(&m.durations)
		}
		r.Moments = append(r.Moments, m)
	}
	r.Half, r.Slow = all.percentile(50), all.percentile(95)
	return r
}

// stacked are the actions in the order in which the graph stacks them.
var stacked = [...]filter.Action{filter.Pass, filter.Allow, filter.Warn, filter.Redirect, filter.Block}

// merged is how many slots one bar shows: a minute.
const merged = 6

// graphs returns the figures of the chart as a table.
func (r *Recent) graphs() (verdicts web.Graph) {
	verdicts = web.Graph{Name: "verdicts", Kind: "bars", Title: text.Mark("The last hour, by verdict")}
	for _, a := range stacked {
		if r.Actions[a.String()] > 0 {
			verdicts.Columns = append(verdicts.Columns, web.GraphColumn{Name: a.String(), Colour: a.String()})
		}
	}
	for some := range slices.Chunk(r.Moments, merged) {
		at := some[0].At.Local().Format("15:04")
		row := web.GraphRow{At: at}
		for _, c := range verdicts.Columns {
			sum := uint64(0)
			for _, m := range some {
				sum += uint64(m.Counts[c.Name])
			}
			row.Values = append(row.Values, strconv.FormatUint(sum, 10))
		}
		verdicts.Rows = append(verdicts.Rows, row)
	}
	return verdicts
}
