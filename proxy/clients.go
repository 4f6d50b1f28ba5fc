package proxy

import (
	"net/netip"
	"sync"

	"shuultuur/lib/fair"
)

// clients counts the connections of each client, as package fair tells them apart.
type clients struct {
	mu sync.Mutex
	n  map[netip.Addr]int
}

// fewConnections is the number that an address may always have: a thirty-second of all. The
// last quarter of all connections is reserved for addresses with no more than that.
const (
	fewConnections  = 32
	keptConnections = 4
)

// enter counts one more connection of address a. open of all connections are in use. It
// returns false if a already has most connections, or would take one that is reserved for
// others.
func (c *clients) enter(a netip.Addr, most int, open, all int64) bool {
	a = fair.Client(a)
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
	a = fair.Client(a)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n[a]--; c.n[a] <= 0 {
		delete(c.n, a)
	}
}
