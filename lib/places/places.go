// Package places shares the places that a server has for messages among those for whom they are:
// each gets its turn, and what arrives slowly leaves places for the rest.
package places

import (
	"context"
	"net/netip"
	"sync"
	"time"
)

// BusyFor is how long a server that was busy gets no more connections than it had then.
const BusyFor = time.Second

// A Gate admits a limited number of messages to a server at a time. Clients take turns: the next place
// is for the client that has the fewest. The zero Gate admits none.
type Gate struct {
	mu      sync.Mutex
	used    int
	most    int // as the server has it, and the settings
	now     int // at most most: fewer after the server was busy
	changed time.Time
	by      map[netip.Addr]int // messages of each client
	waiting []*ticket

	streams map[netip.Addr]int // bodies of each client that are still arriving
	open    int                // all of them
}

// A ticket is a message that waits.
type ticket struct {
	who  netip.Addr
	turn chan struct{}
}

// Limit sets the number of places, at least 1.
func (g *Gate) Limit(n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if n = max(n, 1); g.now == g.most || g.now > n {
		g.now = n
	}
	g.most = n
	g.admit()
}

// Busy leaves the server with fewer connections than are in use.
func (g *Gate) Busy() {
	g.mu.Lock()
	g.now, g.changed = max(min(g.now, g.used-1), 1), time.Now()
	g.mu.Unlock()
}

// grow permits another connection if the server has not been busy for a while. The caller has g.mu.
func (g *Gate) grow() {
	if g.now < g.most && time.Since(g.changed) >= BusyFor {
		g.now, g.changed = g.now+1, time.Now()
	}
}

// Full reports whether the next caller of Take would wait.
func (g *Gate) Full() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.grow()
	return g.used >= g.now || len(g.waiting) > 0
}

// InUse returns the number of places in use.
func (g *Gate) InUse() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.used
}

// admit admits waiting messages while there is room. The caller has g.mu.
func (g *Gate) admit() {
	for g.used < g.now && len(g.waiting) > 0 {
		next := 0
		for i, t := range g.waiting {
			if g.by[t.who] < g.by[g.waiting[next].who] {
				next = i
			}
		}
		t := g.waiting[next]
		g.waiting = append(g.waiting[:next], g.waiting[next+1:]...)
		g.enter(t.who)
		close(t.turn)
	}
}

func (g *Gate) enter(who netip.Addr) {
	if g.by == nil {
		g.by = map[netip.Addr]int{}
	}
	g.used++
	g.by[who]++
}

func (g *Gate) leave(who netip.Addr) {
	g.used--
	if g.by[who]--; g.by[who] == 0 {
		delete(g.by, who)
	}
	g.grow()
	g.admit()
}

// Take waits until a message of a client is admitted. It fails if ctx ends.
func (g *Gate) Take(ctx context.Context, who netip.Addr) error {
	g.mu.Lock()
	g.grow()
	if g.used < g.now && len(g.waiting) == 0 {
		g.enter(who)
		g.mu.Unlock()
		return nil
	}
	t := &ticket{who, make(chan struct{})}
	g.waiting = append(g.waiting, t)
	g.admit()
	g.mu.Unlock()
	select {
	case <-t.turn:
		return nil
	case <-ctx.Done():
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for i, w := range g.waiting {
		if w == t {
			g.waiting = append(g.waiting[:i], g.waiting[i+1:]...)
			return ctx.Err()
		}
	}
	g.leave(who) // admitted at the same moment
	return ctx.Err()
}

// Give returns the place of a message.
func (g *Gate) Give(who netip.Addr) {
	g.mu.Lock()
	g.leave(who)
	g.mu.Unlock()
}

// Stream reports whether a body of a client may use a connection while it arrives, which may take
// long: all such bodies have half of the connections, and those of one client three quarters of these.
func (g *Gate) Stream(who netip.Addr) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	most := max(g.now/2, 1)
	if g.open >= most || g.streams[who] >= (3*most+3)/4 {
		return false
	}
	if g.streams == nil {
		g.streams = map[netip.Addr]int{}
	}
	g.open++
	g.streams[who]++
	return true
}

// EndStream ends what Stream began.
func (g *Gate) EndStream(who netip.Addr) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open--
	if g.streams[who]--; g.streams[who] == 0 {
		delete(g.streams, who)
	}
}
