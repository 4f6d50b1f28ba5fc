package proxy

import (
	"context"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// A share is so many of something that all requests have to do with: turns to
// be worked on, turns to be judged, bytes to hold bodies in. Who finds too few
// left waits in line. Clients take turns there, so that one with many requests
// does not keep out one with few; of one client, who came first is first, or
// with newest who came last. Who asks for much is not passed by those who ask
// for little.
type share struct {
	mu          sync.Mutex
	total, free int64 // free is below 0 while more are taken than there are now
	most        int   // in line at once; 0 is any number
	newest      bool
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

// forever is how long one waits for what one cannot do without.
const forever = 365 * 24 * time.Hour

func newShare(n int64, most int) *share {
	return &share{total: n, free: n, most: most, lines: map[netip.Addr]*line{}}
}

// next is the claim whose turn it is, at i.
func (s *share) next(l *line) (c *claim, i int) {
	if s.newest {
		i = len(l.claims) - 1
	}
	return l.claims[i], i
}

// take takes n for a client, waiting at most wait. It says whether it got them,
// and whether it had to wait.
func (s *share) take(ctx context.Context, who netip.Addr, n int64, wait time.Duration) (ok, waited bool) {
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

// drop takes a claim out of its line. It is mostly the first or the last.
func (s *share) drop(l *line, i int) {
	s.waiting--
	if i == 0 {
		l.claims[0] = nil
		l.claims = l.claims[1:]
		return
	}
	l.claims = slices.Delete(l.claims, i, i+1)
}

// leave takes a client out that waits for nothing more.
func (s *share) leave(l *line) {
	delete(s.lines, l.who)
	for i, r := range s.ring {
		if r == l {
			s.ring = append(s.ring[:i], s.ring[i+1:]...)
			return
		}
	}
}

func (s *share) give(n int64) {
	if n == 0 {
		return
	}
	s.mu.Lock()
	s.free += n
	s.serve()
	s.mu.Unlock()
}

func (s *share) serve() {
	for len(s.ring) > 0 {
		l := s.ring[0]
		c, i := s.next(l)
		if s.free < c.n {
			return
		}
		s.free -= c.n
		close(c.done)
		s.drop(l, i)
		if len(l.claims) == 0 {
			s.leave(l)
			continue
		}
		s.ring = append(s.ring[1:], l)
	}
}

// resize changes how many there are. Those that are taken stay so.
func (s *share) resize(n int64) {
	s.free += n - s.total
	s.total = n
	s.serve()
}

// size is how many there are now.
func (s *share) size() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.total
}

func (s *share) used() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.total - s.free
}

// inLine is how many wait.
func (s *share) inLine() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return int64(s.waiting)
}
