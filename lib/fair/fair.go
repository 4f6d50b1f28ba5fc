// Package fair shares limited resources among all clients: turns to process requests, turns to
// judge bodies, memory to hold them. If too little is free, claims wait in a line for each
// client, in order of arrival. The lines are served in rotation, so that a client with many
// requests does not shut out one with few.
//
// [Semaphore.Acquire] grants the units that are free at once, or queues the claim in its client's
// line. [Semaphore.Release] returns units and serves the lines, one claim of each client in
// rotation. The number of turns for requests follows the capacity of the processors (see
// [NewTurns]). Turns are also shared while they are held: a client with many of them leaves a
// quarter to clients with few.
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

// A Semaphore is a number of units that requests take and return. Smaller claims that came later
// do not overtake a large one.
type Semaphore struct {
	mu          sync.Mutex
	total, free int64 // free is negative while more are taken than there are now
	most        int   // limit of waiting claims; 0 for none
	waiting     int
	ring        []*line // of clients, the next one first
	lines       map[netip.Addr]*line
	pace        *pace                // changes total while claims wait; nil for never
	held        map[netip.Addr]int64 // units that each client holds; nil: nobody counts them
	own         int64                // units that a client may hold however few are free

	used map[netip.Addr]time.Duration // lately, by each client; nil: the lines are served in rotation
	aged time.Time                    // when that was halved
}

// A client that holds more than a few of all units takes none of the last quarter. So each of many
// clients gets some, however long one holds the others.
const (
	few  = 32 // one in as many
	kept = 4
)

// may reports whether a client may take n more units, if they are free. Units that may still be
// added count as free. mu is held.
func (s *Semaphore) may(who netip.Addr, n int64) bool {
	if s.held == nil {
		return true
	}
	most := s.total
	if s.pace != nil {
		most = s.pace.most
	}
	return s.held[who]+n <= s.own || s.free-n+most-s.total >= most/kept
}

// take takes n units for a client; mu is held.
func (s *Semaphore) take(who netip.Addr, n int64) {
	s.free -= n
	if s.held != nil {
		s.held[who] += n
	}
}

// A line has the waiting claims of one client.
type line struct {
	who    netip.Addr
	claims []*claim
}

type claim struct {
	n    int64
	done chan struct{}
}

// Client returns what counts as one client: an IPv4 address, or the /64 of an IPv6 address, of which
// a machine may use any. Link-local addresses are those of different machines.
func Client(a netip.Addr) netip.Addr {
	if a.Is4() || !a.IsValid() || a.IsLinkLocalUnicast() {
		return a
	}
	if a = a.Unmap(); a.Is4() {
		return a
	}
	p, _ := a.WithZone("").Prefix(64) // 64 fits
	return p.Addr()
}

// Forever is the time limit for claims that a request cannot do without.
const Forever = 365 * 24 * time.Hour

// New returns a semaphore of n units. At most queue claims wait; 0 means any number.
func New(n int64, queue int) *Semaphore {
	return &Semaphore{total: n, free: n, most: queue, lines: map[netip.Addr]*line{}}
}

// NewShared is New for units that clients hold for long. A client may always hold own of them, if they are
// free. Those who hold more leave a quarter to the others: their claims wait. [Semaphore.Claim] leaves half.
// Units are returned with [Semaphore.Return].
func NewShared(n, own int64) *Semaphore {
	s := New(n, 0)
	s.held, s.own = map[netip.Addr]int64{}, own
	return s
}

// Claim takes n units for a client at once, if it holds no more than is left then, or than it may always
// hold. So a single client gets half of all, and each of two a third.
func (s *Semaphore) Claim(who netip.Addr, n int64) bool {
	who = Client(who)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held[who]+n > max(s.own, s.free) || !s.isFree(who, n) {
		return false
	}
	s.take(who, n)
	return true
}

// isFree reports whether a client may take n units at once; mu is held. Claims that wait for more than the
// share of their client keep nobody else waiting.
func (s *Semaphore) isFree(who netip.Addr, n int64) bool {
	return s.free >= n && (s.waiting == 0 || s.lines[who] == nil && s.blocked()) && s.may(who, n)
}

// mostLines is how many lines are compared by the time that their clients have used.
const mostLines = 256

// ByTime makes s serve the client first that has used it least lately, as [Semaphore.Charge] says.
func (s *Semaphore) ByTime() *Semaphore {
	s.used, s.aged = map[netip.Addr]time.Duration{}, time.Now()
	return s
}

// Charge notes that a client has used a unit for a time. What it used counts half after each second.
func (s *Semaphore) Charge(who netip.Addr, took time.Duration) {
	if s.used == nil {
		return
	}
	who = Client(who)
	s.mu.Lock()
	defer s.mu.Unlock()
	if halves := time.Since(s.aged) / time.Second; halves > 0 {
		s.aged = s.aged.Add(halves * time.Second)
		for w, d := range s.used {
			if d >>= min(halves, 62); d < time.Millisecond {
				delete(s.used, w)
			} else {
				s.used[w] = d
			}
		}
	}
	s.used[who] += took
}

// next moves the line whose client has used least to the front; mu is held.
func (s *Semaphore) next() {
	if s.used == nil {
		return
	}
	best := 0
	for i, l := range s.ring[:min(len(s.ring), mostLines)] {
		if s.used[l.who] < s.used[s.ring[best].who] {
			best = i
		}
	}
	l := s.ring[best]
	copy(s.ring[1:], s.ring[:best])
	s.ring[0] = l
}

// Acquire takes n units for a client, and waits at most wait. It reports whether they were
// granted, and whether the caller had to wait.
func (s *Semaphore) Acquire(ctx context.Context, who netip.Addr, n int64, wait time.Duration) (ok, waited bool) {
	who = Client(who)
	s.mu.Lock()
	if s.isFree(who, n) {
		s.take(who, n)
		s.mu.Unlock()
		return true, false
	}
	l := s.lines[who]
	// No client has all places of the queue.
	if wait <= 0 || s.most > 0 && (s.waiting >= s.most || l != nil && len(l.claims) >= s.most-s.most/kept) {
		s.mu.Unlock()
		return false, false
	}
	c := &claim{n, make(chan struct{})}
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
			s.serve() // others may want less
			return false, true
		}
	}
	return true, true // granted in the meantime
}

// drop removes a claim from its line, usually the first.
func (s *Semaphore) drop(l *line, i int) {
	s.waiting--
	if i == 0 {
		l.claims[0] = nil
		l.claims = l.claims[1:]
		return
	}
	l.claims = slices.Delete(l.claims, i, i+1)
}

// leave removes a client without waiting claims.
func (s *Semaphore) leave(l *line) {
	delete(s.lines, l.who)
	for i, r := range s.ring {
		if r == l {
			s.ring = append(s.ring[:i], s.ring[i+1:]...)
			return
		}
	}
}

// Release returns n units.
func (s *Semaphore) Release(n int64) {
	if n == 0 {
		return
	}
	s.mu.Lock()
	s.free += n
	s.serve()
	s.mu.Unlock()
}

// Return returns n units that a client holds. Semaphores of [NewTurns] and [NewShared] need it in place of
// Release.
func (s *Semaphore) Return(who netip.Addr, n int64) {
	who = Client(who)
	s.mu.Lock()
	if s.held != nil {
		if s.held[who] -= n; s.held[who] <= 0 {
			delete(s.held, who)
		}
	}
	s.free += n
	s.serve()
	s.mu.Unlock()
}

// serve grants waiting claims, one of each client in rotation. It passes over clients that hold
// their share already.
func (s *Semaphore) serve() {
	for passed := 0; passed < len(s.ring) && s.free > 0; {
		s.next()
		l := s.ring[0]
		c := l.claims[0]
		if !s.may(l.who, c.n) {
			s.ring = append(s.ring[1:], l)
			passed++
			continue
		}
		if s.free < c.n {
			return
		}
		s.take(l.who, c.n)
		close(c.done)
		s.drop(l, 0)
		if len(l.claims) == 0 {
			s.leave(l)
			continue
		}
		s.ring = append(s.ring[1:], l)
		passed = 0
	}
}

// blocked reports whether all waiting claims wait because their clients hold their share; mu is
// held. There are few such clients.
func (s *Semaphore) blocked() bool {
	return s.free > 0 && !slices.ContainsFunc(s.ring, func(l *line) bool { return s.may(l.who, l.claims[0].n) })
}

// resize changes the number of units. Taken units stay taken.
func (s *Semaphore) resize(n int64) {
	s.free += n - s.total
	s.total = n
	s.serve()
}

// Size returns the current number of units.
func (s *Semaphore) Size() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.total
}

// Used returns the number of taken units.
func (s *Semaphore) Used() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.total - s.free
}

// Waiting returns the number of waiting claims.
func (s *Semaphore) Waiting() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return int64(s.waiting)
}

// The number of concurrent requests follows the capacity of the processors. More of them would
// not give more responses: they would wait half done in memory, until every access to one
// misses the cache. The number of runnable goroutines shows whether there are too many. The
// time of responses does not: origins may be slow, and waiting for them costs nothing.
const (
	// leastTurns is the least number of turns per processor, so that it always has work. It
	// suffices if origins respond at once.
	leastTurns = 8
	// mostReady is the limit of runnable goroutines per processor.
	mostReady = 16
	// paceEvery is the interval of adjustments while requests wait.
	paceEvery = 5 * time.Millisecond
)

// NewTurns makes the turns of requests: at most n, and at first as few as possible. At most
// queue requests wait; 0 means any number.
func NewTurns(n int64, queue int) *Semaphore {
	processors := int64(runtime.GOMAXPROCS(0))
	s := New(min(n, leastTurns*processors), queue)
	s.held, s.own = map[netip.Addr]int64{}, max(1, n/few)
	s.pace = &pace{least: s.total, most: n, enough: float64(mostReady * processors), ready: readyNow()}
	return s
}

// A pace adjusts the size of a semaphore while claims wait for it. The semaphore guards it.
type pace struct {
	least, most int64
	ready       func() float64 // goroutines
	enough      float64        // limit of them
	mean        float64        // average of the last measurements
	running     bool
}

// begin adjusts s every paceEvery until no claims wait.
func (p *pace) begin(s *Semaphore) {
	if p == nil || p.running {
		return
	}
	p.running = true
	time.AfterFunc(paceEvery, func() { p.look(s) })
}

func (p *pace) look(s *Semaphore) {
	s.mu.Lock()
	defer s.mu.Unlock()
	used := s.total - s.free
	if p.running = s.waiting > 0; !p.running {
		// The current number suffices; the next line may have other causes.
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

// readyNow returns a function that counts the runnable goroutines.
func readyNow() func() float64 {
	sample := []metrics.Sample{{Name: "/sched/goroutines/runnable:goroutines"}}
	return func() float64 {
		metrics.Read(sample)
		return float64(sample[0].Value.Uint64())
	}
}
