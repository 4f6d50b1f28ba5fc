package proxy

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"shuultuur/filter"
	"shuultuur/intercept"
)

// ServeTransparent is Serve for connections that a firewall sends to ln
// although their clients mean to speak to web servers. ln comes from Listen.
func (p *Proxy) ServeTransparent(ctx context.Context, ln net.Listener) error {
	p.up.mine.on.Store(true)
	return p.serve(ctx, ln, &listener{transparent: true})
}

// ServeSinkhole is Serve for clients that a name server sends here because they
// may not have what they asked for: they speak as to a web server, and get the
// page that says why. The host they name is judged as ever, so that one who
// clicks through a warning goes on to it.
func (p *Proxy) ServeSinkhole(ctx context.Context, ln net.Listener) error {
	return p.serve(ctx, ln, &listener{transparent: true, sinkhole: true})
}

// Listen listens on addr. tproxy says that a firewall brings connections there
// without changing their destination (Linux: TPROXY), for which the socket
// needs CAP_NET_ADMIN.
func Listen(ctx context.Context, addr string, tproxy bool) (net.Listener, error) {
	var lc net.ListenConfig
	if tproxy {
		lc.Control = anyAddress
	}
	return lc.Listen(ctx, "tcp", addr)
}

// beginTransparent finds out where the client meant to go. It says whether
// requests follow.
func (x *session) beginTransparent() bool {
	p := x.p
	if x.l.sinkhole {
		return x.beginSinkhole()
	}
	orig, err := originalDestination(x.socket)
	if err != nil {
		p.log.Warn("a connection to a transparent listener that no firewall rule brought here", "client", x.client, "err", err)
		return false
	}
	if x.ownAddress(orig) {
		p.counters.loops.Add(1)
		p.log.Warn("a connection to a transparent listener is meant for the gateway itself: a loop, or a client that asks it directly", "client", x.client, "to", orig)
		return false
	}
	return x.beginRedirected(orig)
}

// beginSinkhole begins a connection to a sinkhole: what was meant is the port
// that such a client uses, of a host it is about to name.
func (x *session) beginSinkhole() bool {
	local, ok := x.socket.LocalAddr().(*net.TCPAddr)
	if !ok {
		return false
	}
	b, err := x.r.Peek(1)
	if err != nil {
		return false
	}
	port := uint16(80)
	if b[0] == 0x16 {
		port = 443
	}
	return x.beginRedirected(netip.AddrPortFrom(local.AddrPort().Addr().Unmap().WithZone(""), port))
}

// beginRedirected begins a connection that was meant for orig.
func (x *session) beginRedirected(orig netip.AddrPort) bool {
	x.p.counters.transparent.Add(1)
	d := &decrypted{scheme: "http", orig: orig, dial: orig.Addr().String(), host: orig.Addr().String(), port: orig.Port()}
	b, err := x.r.Peek(1)
	if err != nil {
		return false
	}
	x.inside = d
	// Who has sent a byte has returned from connecting, so ours are known.
	if a, ok := x.socket.RemoteAddr().(*net.TCPAddr); ok && x.p.up.mine.holds(a.AddrPort()) {
		x.p.counters.loops.Add(1)
		x.p.log.Warn("a connection of the gateway's own was redirected to it: a loop; exempt its connections from the firewall's rule", "to", orig)
		return false
	}
	if b[0] != 0x16 {
		return true
	}
	return x.transparentTLS(d)
}

// ownAddress says whether a redirected connection was meant for us.
func (x *session) ownAddress(to netip.AddrPort) bool {
	if local, ok := x.socket.LocalAddr().(*net.TCPAddr); ok {
		l := local.AddrPort()
		if netip.AddrPortFrom(l.Addr().Unmap().WithZone(""), l.Port()) == to && x.l.port == to.Port() {
			return true
		}
	}
	return slices.ContainsFunc(x.p.cfg.Own, func(o netip.AddrPort) bool { return o.Addr().Unmap() == to.Addr() && o.Port() == to.Port() })
}

// transparentTLS serves a redirected connection that begins with a hello: a
// transaction of its own, as CONNECT is.
func (x *session) transparentTLS(d *decrypted) (more bool) {
	p, t := x.p, &x.t
	t.Reset()
	t.Start = time.Now()
	t.ID = p.ids.Next(t.Start)
	t.Proto, t.Port, t.Host = filter.TLS, d.port, d.host
	x.eng = p.engine.Load()
	x.started, x.continued, x.send.err = false, false, nil
	p.counters.requests.Add(1)
	defer x.finish()
	d.scheme = "https"
	x.inside = nil
	if err := x.transparentClient(d); err != nil {
		x.note("identify: " + err.Error())
		x.c.Write(alert[:])
		return false
	}
	return x.decryptHello(d, true)
}

// transparentClient finds out who asks, by address alone: there is nobody to
// ask for a password.
func (x *session) transparentClient(d *decrypted) error {
	who, err := x.eng.Identify(x.ctx, x.client, nil)
	if !who.Addr.IsValid() {
		who.Addr = x.client
	}
	d.client, x.t.Client = who, who
	return err
}

// redirected fills in what the hello of a redirected connection says and has
// its name judged. What is not to be decrypted is judged by name alone.
func (x *session) redirected(d *decrypted, h *intercept.Hello) (pass bool) {
	t := &x.t
	if h.Host != "" {
		d.host = h.Host
	}
	t.Host = d.host
	t.URL = string(appendPort(appendHost(nil, t.Host), t.Port))
	x.aim(d, d.host)
	t.Last = filter.ResponseBody
	if !x.intercepts() {
		t.Last = filter.Name
	}
	return x.decide(filter.Name)
}

// aim sets where to connect to for host on a redirected connection. A client
// may name any host and connect to any address: where the address is none of
// the host's, the host's own is taken.
func (x *session) aim(d *decrypted, host string) {
	d.dial = d.orig.Addr().String()
	if host == d.dial {
		return
	}
	if a, err := netip.ParseAddr(host); err == nil {
		d.dial = a.String()
		return
	}
	if addrs := x.p.names.lookup(x.ctx, x.p.up.dialer.Resolver, host); !slices.Contains(addrs, d.orig.Addr()) {
		x.note("the client connected to " + d.dial + ", which is no address of the host: connected to the host's own")
		x.p.counters.misdirected.Add(1)
		d.dial = host
	}
}

// ports are the ends of the connections that were made a moment ago: one that
// comes in from there is a loop. Unlike a request, a hello carries no mark.
type ports struct {
	on atomic.Bool // there is a transparent listener
	mu sync.Mutex
	at map[netip.AddrPort]time.Time
}

const (
	maxPorts = 4096
	portTime = 10 * time.Second
)

func (s *ports) add(c net.Conn) {
	a, ok := c.LocalAddr().(*net.TCPAddr)
	if !ok || !s.on.Load() {
		return
	}
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.at == nil {
		s.at = map[netip.AddrPort]time.Time{}
	}
	if len(s.at) >= maxPorts {
		for k, t := range s.at {
			if now.Sub(t) > portTime || len(s.at) >= maxPorts {
				delete(s.at, k)
			}
		}
	}
	s.at[unmapped(a.AddrPort())] = now
}

func (s *ports) holds(a netip.AddrPort) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, ok := s.at[unmapped(a)]
	return ok && time.Since(t) < portTime
}

func unmapped(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr().Unmap().WithZone(""), a.Port())
}

// names keeps the addresses of hosts for a while.
type names struct {
	mu sync.Mutex
	of map[string]addresses
}

type addresses struct {
	list  []netip.Addr
	until time.Time
}

const (
	maxNames  = 8192
	nameTime  = time.Minute
	namelessT = 5 * time.Second // for a name without addresses
)

func (n *names) lookup(ctx context.Context, r *net.Resolver, host string) []netip.Addr {
	n.mu.Lock()
	a, ok := n.of[host]
	n.mu.Unlock()
	if ok && time.Now().Before(a.until) {
		return a.list
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	list, err := r.LookupNetIP(ctx, "ip", host)
	for i := range list {
		list[i] = list[i].Unmap().WithZone("")
	}
	a = addresses{list, time.Now().Add(nameTime)}
	if err != nil {
		a.until = time.Now().Add(namelessT)
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

var errNotRedirected = errors.New("the system does not know where it was meant to go")
