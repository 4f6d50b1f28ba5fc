package upstream

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"time"

	"shuultuur/lib/dns"
	"shuultuur/lib/platform"
)

// This file connects to a host by its addresses (RFC 8305). The questions for its IPv4 and its IPv6
// addresses do not wait for each other. Attempts begin one after the other, soon enough that a dead
// address costs little, and the first one to succeed ends the others. An address that did not
// accept is tried last for a while.

const (
	// nextAttempt is how long an attempt is alone (RFC 8305 section 5).
	nextAttempt = 250 * time.Millisecond
	// otherFamily is how long addresses wait for those of the other family, which are preferred
	// (RFC 8305 section 3).
	otherFamily = 50 * time.Millisecond
	// noPort is how long an attempt waits where all local ports are in use.
	noPort = 100 * time.Millisecond
	// mostAddresses is how many addresses of one host are tried.
	mostAddresses = 16

	deadTime = time.Minute
	maxDead  = 1024
)

// KeepAlive finds peers that have vanished without a word, in 75 seconds.
var KeepAlive = net.KeepAliveConfig{Enable: true, Idle: 30 * time.Second, Interval: 15 * time.Second, Count: 3}

// A dead remembers addresses that did not accept a connection.
type dead struct {
	mu sync.Mutex
	at map[netip.AddrPort]time.Time
}

// add records that an address did not accept.
func (d *dead) add(a netip.AddrPort) {
	now := time.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.at == nil {
		d.at = map[netip.AddrPort]time.Time{}
	}
	for k, t := range d.at {
		if len(d.at) >= maxDead || now.Sub(t) > deadTime {
			delete(d.at, k)
		}
	}
	d.at[a] = now
}

// remove records that an address accepts.
func (d *dead) remove(a netip.AddrPort) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.at, a)
}

// has reports whether an address has not accepted lately.
func (d *dead) has(a netip.AddrPort) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	t, ok := d.at[a]
	return ok && time.Since(t) < deadTime
}

// An attempt is one to connect to an address.
type attempt struct {
	to   netip.AddrPort
	conn net.Conn
	err  error
}

// found are the addresses of one family.
type found struct {
	addrs []netip.Addr
	err   error
}

// reach connects to host:port, whose attempts d makes.
func (t *Transport) reach(ctx context.Context, d *net.Dialer, addr string) (net.Conn, error) {
	host, service, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: err}
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return dialOnce(ctx, d, addr)
	}
	port, err := net.LookupPort("tcp", service)
	if err != nil {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: err}
	}
	ctx, cancel := context.WithTimeout(ctx, d.Timeout)
	if d.Timeout <= 0 {
		cancel()
		ctx, cancel = context.WithCancel(ctx)
	}
	defer cancel()
	r := race{t: t, d: d, port: uint16(port), over: make(chan struct{}), ended: make(chan attempt)}
	defer close(r.over)
	return r.run(ctx, t.lookup(ctx, d.Resolver, host, "ip6"), t.lookup(ctx, d.Resolver, host, "ip4"))
}

// lookup asks for the addresses of one family.
func (t *Transport) lookup(ctx context.Context, names *net.Resolver, host, family string) <-chan found {
	c := make(chan found, 1)
	go func() {
		addrs, err := names.LookupNetIP(ctx, family, host)
		c <- found{addrs, err}
	}()
	return c
}

// dialOnce makes one attempt. Where all local ports are in use, it waits for one.
func dialOnce(ctx context.Context, d *net.Dialer, addr string) (net.Conn, error) {
	began := time.Now()
	for {
		c, err := d.DialContext(ctx, "tcp", addr)
		if !errors.Is(err, platform.EADDRNOTAVAIL) || d.Timeout <= 0 || time.Since(began) > d.Timeout {
			return c, err
		}
		select {
		case <-time.After(noPort):
		case <-ctx.Done():
			return nil, err
		}
	}
}

// A race is the attempts to connect to one host.
type race struct {
	t     *Transport
	d     *net.Dialer
	port  uint16
	over  chan struct{} // closed at the end
	ended chan attempt

	waiting []netip.AddrPort // addresses not tried, the next one first
	running []netip.AddrPort // in the order of their beginning
	tried   int
	err     error // of an attempt
	unknown error // of a question for addresses
}

// run returns the first connection.
func (r *race) run(ctx context.Context, six, four <-chan found) (net.Conn, error) {
	var next, alone <-chan time.Time // when another attempt may begin, and when IPv4 need not wait any more
	for {
		if next == nil && alone == nil && len(r.waiting) > 0 {
			next = r.begin(ctx)
		}
		if six == nil && four == nil && len(r.waiting) == 0 && len(r.running) == 0 {
			return nil, cmp.Or(r.err, r.unknown)
		}
		select {
		case f := <-six:
			six, alone = nil, nil
			r.add(f)
		case f := <-four:
			if four = nil; six != nil {
				alone = time.After(otherFamily)
			}
			r.add(f)
		case <-alone:
			alone = nil
		case <-next:
			next = nil
		case a := <-r.ended:
			i := slices.Index(r.running, a.to)
			if a.err == nil {
				r.t.dead.remove(a.to)
				for _, slower := range r.running[:i] {
					r.t.dead.add(slower)
				}
				return a.conn, nil
			}
			r.running = slices.Delete(r.running, i, i+1)
			if _, refused := errors.AsType[*RefusedError](a.err); !refused {
				r.t.dead.add(a.to)
			}
			r.fail(a.err)
			next = nil
		case <-ctx.Done():
			late := &net.OpError{Op: "dial", Net: "tcp", Err: ctx.Err()}
			if late.Err == context.DeadlineExceeded {
				late.Err = os.ErrDeadlineExceeded
			}
			if len(r.running) > 0 {
				late.Addr = net.TCPAddrFromAddrPort(r.running[0])
			}
			r.fail(late)
			return nil, r.err
		}
	}
}

// fail keeps the error that says most.
func (r *race) fail(err error) {
	if r.err == nil || saying(err) > saying(r.err) {
		r.err = err
	}
}

// saying returns how much the error of an attempt says about the host: less if we refuse its
// address or have no way to it.
func saying(err error) int {
	if _, ok := errors.AsType[*RefusedError](err); ok {
		return 0
	}
	if errors.Is(err, platform.ENETUNREACH) || errors.Is(err, platform.EHOSTUNREACH) {
		return 1
	}
	return 2
}

// add adds addresses: those of the two families by turns, those that are dead last.
func (r *race) add(f found) {
	if len(f.addrs) == 0 && f.err == nil {
		f.err = errors.New("the host has no address")
	}
	if f.err != nil {
		if _, ok := errors.AsType[*net.DNSError](f.err); ok || r.unknown == nil {
			r.unknown = &net.OpError{Op: "dial", Net: "tcp", Err: f.err}
		}
		return
	}
	mine := make([]netip.AddrPort, 0, len(f.addrs))
	for _, a := range f.addrs {
		if a = a.Unmap(); r.t.guard.nat64.IsValid() && a.Is4() {
			mine = append(mine, netip.AddrPortFrom(a, r.port), netip.AddrPortFrom(dns.TranslatedIPv6(r.t.guard.nat64, a), r.port))
		} else {
			mine = append(mine, netip.AddrPortFrom(a, r.port))
		}
	}
	mine = mine[:min(len(mine), max(0, mostAddresses-r.tried-len(r.waiting)))]
	var mixed []netip.AddrPort
	for first, second := r.waiting, mine; len(first)+len(second) > 0; first, second = second, first {
		if len(first) > 0 {
			mixed = append(mixed, first[0])
			first = first[1:]
		}
	}
	slices.SortStableFunc(mixed, func(a, b netip.AddrPort) int {
		switch x, y := r.t.dead.has(a), r.t.dead.has(b); {
		case x == y:
			return 0
		case x:
			return 1
		}
		return -1
	})
	r.waiting = mixed
}

// begin begins the next attempt, and returns when another one may begin.
func (r *race) begin(ctx context.Context) <-chan time.Time {
	to := r.waiting[0]
	r.waiting = r.waiting[1:]
	r.running = append(r.running, to)
	r.tried++
	go func() {
		c, err := dialOnce(ctx, r.d, to.String())
		select {
		case r.ended <- attempt{to, c, err}:
		case <-r.over:
			if err == nil {
				c.Close()
			}
		}
	}()
	return time.After(nextAttempt)
}
