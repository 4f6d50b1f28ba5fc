package web

import (
	"net/netip"
	"sync"
	"time"
)

const (
	maxTries     = 10          // wrong tokens within tryTime that bar a client
	tryTime      = time.Minute // counted from the first of them
	maxBarred    = 4096        // clients that are remembered
	clientBitsV6 = 64          // bits of an IPv6 address: a client may have all addresses with the same
)

// tries counts wrong tokens by client.
type tries struct {
	mu    sync.Mutex
	since map[netip.Prefix]tryCount
}

type tryCount struct {
	n     int
	first time.Time
}

func clientOf(a netip.Addr) netip.Prefix {
	bits := a.BitLen()
	if a.Is6() {
		bits = clientBitsV6
	}
	p, _ := a.Prefix(bits) // the zero Prefix for an unknown address
	return p
}

// barred reports whether a client has tried too often.
func (t *tries) barred(a netip.Addr) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	x := t.since[clientOf(a)]
	return x.n >= maxTries && time.Since(x.first) < tryTime
}

// add counts a wrong token.
func (t *tries) add(a netip.Addr) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c, now := clientOf(a), time.Now()
	x := t.since[c]
	if now.Sub(x.first) >= tryTime {
		x = tryCount{first: now}
	}
	x.n++
	if t.since == nil {
		t.since = map[netip.Prefix]tryCount{}
	}
	if len(t.since) >= maxBarred {
		t.forget(now)
	}
	t.since[c] = x
}

// forget makes room: it removes clients whose time is over, or any one.
func (t *tries) forget(now time.Time) {
	for c, x := range t.since {
		if now.Sub(x.first) >= tryTime {
			delete(t.since, c)
		}
	}
	for c := range t.since {
		if len(t.since) < maxBarred {
			return
		}
		delete(t.since, c)
	}
}
