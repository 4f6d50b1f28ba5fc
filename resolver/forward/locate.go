package forward

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// How long looked-up addresses of upstreams are used.
const (
	leastKeep = time.Minute
	mostKeep  = time.Hour
	staleKeep = 30 * time.Second // when a new look-up fails
)

// A locator knows the addresses of one upstream.
type locator struct {
	host string
	port uint16
	look func(ctx context.Context, host string) ([]netip.Addr, time.Duration, error) // nil: addrs is all

	one chan struct{} // held during a look-up

	mu    sync.Mutex
	addrs []netip.Addr
	until time.Time
}

// pick returns the address to use now. When several queries need a look-up, one makes it and
// the others wait.
func (l *locator) pick(ctx context.Context) (netip.AddrPort, error) {
	if to, ok := l.known(time.Now()); ok {
		return to, nil
	}
	select {
	case l.one <- struct{}{}:
		defer func() { <-l.one }()
	case <-ctx.Done():
		return netip.AddrPort{}, ctx.Err()
	}
	now := time.Now()
	if to, ok := l.known(now); ok {
		return to, nil
	}
	addrs, ttl, err := l.look(ctx, l.host)
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err == nil:
		l.addrs, l.until = addrs, now.Add(min(max(ttl, leastKeep), mostKeep))
	case len(l.addrs) > 0:
		l.until = now.Add(staleKeep)
	default:
		return netip.AddrPort{}, fmt.Errorf("looking up the upstream %q: %w", l.host, err)
	}
	return netip.AddrPortFrom(l.addrs[0], l.port), nil
}

func (l *locator) known(now time.Time) (netip.AddrPort, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.addrs) == 0 || l.look != nil && now.After(l.until) {
		return netip.AddrPort{}, false
	}
	return netip.AddrPortFrom(l.addrs[0], l.port), true
}

// failed moves an address that did not answer to the end.
func (l *locator) failed(a netip.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.addrs) > 1 && l.addrs[0] == a {
		l.addrs = append(slices.Clone(l.addrs[1:]), a)
	}
}
