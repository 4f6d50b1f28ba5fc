package proxy

import (
	"net/netip"
	"sync"
)

// clients counts the connections of each client address.
type clients struct {
	mu sync.Mutex
	n  map[netip.Addr]int
}

// fewConnections is what an address may always have: a thirty-second of all.
// The last quarter of all connections is kept for addresses that have no more.
const (
	fewConnections  = 32
	keptConnections = 4
)

// enter counts one more connection of a, which is one of open out of all,
// unless a has most already. With most being any number, a may take what is not
// kept for others.
func (c *clients) enter(a netip.Addr, most int, open, all int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.n[a]
	if n >= most || most == anyNumber && int64(n) > all/fewConnections && open > all-all/keptConnections {
		return false
	}
	c.n[a]++
	return true
}

func (c *clients) leave(a netip.Addr) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n[a]--; c.n[a] <= 0 {
		delete(c.n, a)
	}
}
