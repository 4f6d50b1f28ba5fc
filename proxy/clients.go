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

// enter counts one more connection of a, unless it has max already.
func (c *clients) enter(a netip.Addr, max int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n[a] >= max {
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
