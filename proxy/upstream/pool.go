package upstream

import (
	"sync"
	"time"
)

// A pool keeps idle connections by the properties that a request requires. It uses the
// youngest first, so that the others can expire.
type pool struct {
	perHost, total int
	idle           time.Duration

	mu     sync.Mutex
	byAddr map[string][]*conn
	n      int
}

// get returns a live idle connection for key, or nil.
func (p *pool) get(key []byte, now time.Time) *conn {
	for {
		p.mu.Lock()
		list := p.byAddr[string(key)]
		if len(list) == 0 {
			p.mu.Unlock()
			return nil
		}
		u := list[len(list)-1]
		list[len(list)-1] = nil
		p.byAddr[u.key] = list[:len(list)-1]
		p.n--
		p.mu.Unlock()
		if now.Sub(u.since) < p.idle && u.alive() {
			return u
		}
		u.Close()
	}
}

// put keeps u for the next request, or closes it if there are enough.
func (p *pool) put(u *conn, now time.Time) {
	u.since = now
	p.mu.Lock()
	list := p.byAddr[u.key]
	if p.n >= p.total || len(list) >= p.perHost {
		p.mu.Unlock()
		u.Close()
		return
	}
	p.byAddr[u.key] = append(list, u)
	p.n++
	p.mu.Unlock()
}

// sweep closes connections that were idle for too long.
func (p *pool) sweep(now time.Time) {
	var old []*conn
	p.mu.Lock()
	for key, list := range p.byAddr {
		i := 0
		for i < len(list) && now.Sub(list[i].since) >= p.idle {
			i++
		}
		old = append(old, list[:i]...)
		p.n -= i
		if i == len(list) {
			delete(p.byAddr, key)
		} else if i > 0 {
			p.byAddr[key] = append([]*conn(nil), list[i:]...)
		}
	}
	p.mu.Unlock()
	for _, u := range old {
		u.Close()
	}
}

// size returns the number of idle connections.
func (p *pool) size() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.n
}
