// Package fair shares what all clients need: turns to be worked on, turns to be
// judged, memory to hold bodies in. When too little is left, claims wait in one
// line for each client, in order of arrival. The lines are served by turns, so
// that a client with many requests does not keep out one with few.
//
// Data moves in this way. [Share.Take] grants what is free at once, or queues
// the claim in its client's line. [Share.Give] returns it and serves the lines,
// one claim of each client by turns. The number of turns for requests follows
// what the processors can take (see [NewTurns]).
package fair

import (
	"context"
	"net/netip"
	"runtime"
	"runtime/metrics"
	"slices"
	"sync"
	"time"
)

// A Share is a number of units that requests take and give back. A large claim
// is not passed by smaller ones that came later.
type Share struct {
	mu          sync.Mutex
	total, free int64 // free is below 0 while more are taken than there are now
	most        int   // in line at once; 0 is any number
	waiting     int
	ring        []*line // of clients, the next one first
	lines       map[netip.Addr]*line
	pace        *pace // changes total while somebody waits; nil for never
}

// A line is the claims of one client that wait.
type line struct {
	who    netip.Addr
	claims []*claim
}

type claim struct {
	n    int64
	done chan struct{}
}

// Forever is the wait for what a request cannot do without.
const Forever = 365 * 24 * time.Hour

// New returns a share of n units. At most queue claims wait; 0 is any number.
func New(n int64, queue int) *Share {
	return &Share{total: n, free: n, most: queue, lines: map[netip.Addr]*line{}}
}

// Take takes n units for a client, waiting at most wait. It says whether it got
// them, and whether it had to wait.
func (s *Share) Take(ctx context.Context, who netip.Addr, n int64, wait time.Duration) (ok, waited bool) {
	s.mu.Lock()
	if s.waiting == 0 && s.free >= n {
		s.free -= n
		s.mu.Unlock()
		return true, false
	}
	if wait <= 0 || s.most > 0 && s.waiting >= s.most {
		s.mu.Unlock()
		return false, false
	}
	c := &claim{n, make(chan struct{})}
	l := s.lines[who]
	if l == nil {
		l = &line{who: who}
		s.lines[who] = l
		s.ring = append(s.ring, l)
	}
	l.claims = append(l.claims, c)
	s.waiting++
	s.pace.begin(s)
	s.mu.Unlock()

	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-c.done:
		return true, true
	case <-timer.C:
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, w := range l.claims {
		if w == c {
			s.drop(l, i)
			if len(l.claims) == 0 {
				s.leave(l)
			}
			s.serve() // those behind may want less
			return false, true
		}
	}
	return true, true // granted in the meantime
}

// drop takes a claim out of its line. It is mostly the first.
func (s *Share) drop(l *line, i int) {
	s.waiting--
	if i == 0 {
		l.claims[0] = nil
		l.claims = l.claims[1:]
		return
	}
	l.claims = slices.Delete(l.claims, i, i+1)
}

// leave takes a client out that waits for nothing more.
func (s *Share) leave(l *line) {
	delete(s.lines, l.who)
	for i, r := range s.ring {
		if r == l {
			s.ring = append(s.ring[:i], s.ring[i+1:]...)
			return
		}
	}
}

// Give returns n units.
func (s *Share) Give(n int64) {
	if n == 0 {
		return
	}
	s.mu.Lock()
	s.free += n
	s.serve()
	s.mu.Unlock()
}

func (s *Share) serve() {
	for len(s.ring) > 0 {
		l := s.ring[0]
		c := l.claims[0]
		if s.free < c.n {
			return
		}
		s.free -= c.n
		close(c.done)
		s.drop(l, 0)
		if len(l.claims) == 0 {
			s.leave(l)
			continue
		}
		s.ring = append(s.ring[1:], l)
	}
}

// resize changes how many there are. Those that are taken stay so.
func (s *Share) resize(n int64) {
	s.free += n - s.total
	s.total = n
	s.serve()
}

// Size returns how many units there are now.
func (s *Share) Size() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.total
}

// Used returns how many units are taken.
func (s *Share) Used() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.total - s.free
}

// Waiting returns how many claims wait.
func (s *Share) Waiting() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return int64(s.waiting)
}

// How many requests are worked on at once follows what the processors can
// take. More of them do not bring more answers: they wait half done, in our
// memory and in that of their sockets, until every access to one misses the
// cache. The number of goroutines that could run and wait for a processor shows
// whether there are too many. The time that answers take does not show it:
// origins may be slow, and waiting for them costs nothing.
const (
	// leastTurns are for each processor, so that one always has something to
	// do. Where origins answer at once they are enough.
	leastTurns = 8
	// mostReady is how many goroutines may wait for each processor.
	mostReady = 16
	// paceEvery is how often that is looked at while requests are in line.
	paceEvery = 5 * time.Millisecond
)

// NewTurns makes the turns of requests: at most n, and at first the fewest that
// it ever has. At most queue requests wait; 0 is any number.
func NewTurns(n int64, queue int) *Share {
	processors := int64(runtime.GOMAXPROCS(0))
	s := New(min(n, leastTurns*processors), queue)
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
func (p *pace) begin(s *Share) {
	if p == nil || p.running {
		return
	}
	p.running = true
	time.AfterFunc(paceEvery, func() { p.look(s) })
}

func (p *pace) look(s *Share) {
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
