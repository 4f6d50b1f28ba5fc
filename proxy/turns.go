package proxy

import (
	"runtime"
	"runtime/metrics"
	"time"
)

// How many requests are worked on at once follows what the processors can
// take. More than that bring no more answers: they lie about half done, in our
// memory and in that of their sockets, until every access to one misses the
// cache. Whether there are too many is seen from the goroutines that could run
// and wait for a processor. It is not seen from how long answers take: origins
// may be slow, and to wait for them costs nothing.
const (
	// leastTurns are for each processor, so that one always has something to
	// do. Where origins answer at once they are enough.
	leastTurns = 8
	// mostReady is how many goroutines may wait for each processor.
	mostReady = 16
	// paceEvery is how often that is looked at while requests are in line.
	paceEvery = 5 * time.Millisecond
)

// newTurns makes the turns of requests: at most n, at first as few as it will
// ever be. Of one client the newest request is next: who has waited long has
// mostly given up, and what just came is still in the cache.
func newTurns(n int64, line int) *share {
	processors := int64(runtime.GOMAXPROCS(0))
	s := newShare(min(n, leastTurns*processors), line)
	s.newest = true
	s.pace = &pace{least: s.total, most: n, enough: float64(mostReady * processors), ready: readyNow()}
	return s
}

// A pace says how many there are of a share from now on, while somebody waits
// for it. The share guards it.
type pace struct {
	least, most int64
	ready       func() float64 // goroutines
	enough      float64        // of them
	mean        float64        // of the last few times
	running     bool
}

// begin looks at s every paceEvery until nobody waits any more.
func (p *pace) begin(s *share) {
	if p == nil || p.running {
		return
	}
	p.running = true
	time.AfterFunc(paceEvery, func() { p.look(s) })
}

func (p *pace) look(s *share) {
	s.mu.Lock()
	defer s.mu.Unlock()
	used := s.total - s.free
	if p.running = s.waiting > 0; !p.running {
		// So many were enough; the next line may have other reasons.
		s.resize(max(p.least, min(s.total, used+used/4)))
		return
	}
	if p.mean += (p.ready() - p.mean) / 4; p.mean > p.enough {
		s.resize(max(p.least, min(s.total, used)*7/8))
	} else {
		s.resize(min(p.most, s.total+max(1, s.total/4)))
	}
	time.AfterFunc(paceEvery, func() { p.look(s) })
}

// readyNow returns a function that counts the goroutines which wait for a
// processor.
func readyNow() func() float64 {
	sample := []metrics.Sample{{Name: "/sched/goroutines/runnable:goroutines"}}
	return func() float64 {
		metrics.Read(sample)
		return float64(sample[0].Value.Uint64())
	}
}
