package proxy

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"shuultuur/proxy/upstream"
)

// aim sets the address to connect to for host on a redirected connection. A client may name
// any host and connect to any address: if the address does not belong to the host, the host's
// own is used.
func (x *request) aim(d *tlsState, host string) {
	if d.asked != "" {
		d.dial = host
		return
	}
	d.dial = d.orig.Addr().String()
	if host == d.dial {
		return
	}
	if a, err := netip.ParseAddr(host); err == nil {
		d.dial = a.String()
		return
	}
	if addrs := x.p.names.lookup(x.ctx, host); !slices.Contains(addrs, d.orig.Addr()) {
		x.ex.Note("the client connected to " + d.dial + ", which is no address of the host: connected to the host's own")
		x.p.counters.add(transparentMisdirected)
		d.dial = host
	}
}

// hasAddress reports whether a is an address of host.
func (n *names) hasAddress(ctx context.Context, host string, a netip.Addr) bool {
	return slices.Contains(n.lookup(ctx, host), a.Unmap().WithZone(""))
}

// denies reports whether a is certainly no address of host.
func (n *names) denies(ctx context.Context, host string, a netip.Addr) bool {
	list := n.lookup(ctx, host)
	n.mu.Lock()
	defer n.mu.Unlock()
	return !slices.Contains(list, a.Unmap().WithZone("")) && (len(list) > 0 || n.of[host].none)
}

// bind reports whether the destination of d is also an address of name, and if so fixes the
// connection to that address.
func (n *names) bind(ctx context.Context, d *tlsState, name string) bool {
	if a, err := netip.ParseAddr(d.dial); err == nil {
		return n.hasAddress(ctx, name, a)
	}
	for _, a := range n.lookup(ctx, d.dial) {
		if n.hasAddress(ctx, name, a) {
			d.dial = a.String()
			return true
		}
	}
	return false
}

// names caches the addresses of hosts.
type names struct {
	mu sync.Mutex
	of map[string]addresses
}

type addresses struct {
	list  []netip.Addr
	none  bool // the name does not exist
	until time.Time
}

const (
	maxNames   = 8192
	nameTime   = time.Minute
	noNameTime = 5 * time.Second // for a name without addresses
)

func (n *names) lookup(ctx context.Context, host string) []netip.Addr {
	n.mu.Lock()
	a, ok := n.of[host]
	n.mu.Unlock()
	if ok && time.Now().Before(a.until) {
		return a.list
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	list, err := upstream.SystemNames().LookupNetIP(ctx, "ip", host)
	for i := range list {
		list[i] = list[i].Unmap().WithZone("")
	}
	a = addresses{list: list, until: time.Now().Add(nameTime)}
	if err != nil {
		dnsErr, _ := errors.AsType[*net.DNSError](err)
		a.none, a.until = dnsErr != nil && dnsErr.IsNotFound, time.Now().Add(noNameTime)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.of == nil {
		n.of = map[string]addresses{}
	}
	for other := range n.of {
		if len(n.of) < maxNames {
			break
		}
		delete(n.of, other) // any one
	}
	n.of[host] = a
	return list
}
